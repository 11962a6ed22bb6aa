"""CuPy fills the device with arrays until its OutOfMemoryError, and works on."""
import sys

import cupy

import take_words


def main():
    arguments = take_words.options(__doc__)
    pool = cupy.cuda.MemoryAsyncPool() if arguments.ordered else cupy.cuda.MemoryPool()
    cupy.cuda.set_allocator(pool.malloc)
    words = arguments.bite * take_words.MIB // 4
    held = take_words.take(
        arguments, lambda: cupy.zeros(words, dtype=cupy.float32), cupy.cuda.memory.OutOfMemoryError)
    cupy.cuda.Device().synchronize()
    take_words.full(arguments, cupy.cuda.Device().mem_info[0])
    take_words.hold(arguments)
    if not held:
        sys.exit("nothing was granted")
    held.clear()
    cupy.cuda.Device().synchronize()
    pool.free_all_blocks()
    print("gave all back")
    again = cupy.zeros(words, dtype=cupy.float32)
    print(f"one more: {arguments.bite} MiB granted")
    if float((again[:1024] + 1).sum()) != 1024.0:
        sys.exit("wrong result after the refusal")
    take_words.memory(arguments, *cupy.cuda.Device().mem_info,
                      cupy.cuda.runtime.getDeviceProperties(0)["totalGlobalMem"])


main()
