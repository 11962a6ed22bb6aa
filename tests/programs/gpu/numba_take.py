"""Numba fills the device with arrays until the driver's out of memory, and works on."""
import sys

import numpy

import take_words

# Numba for CUDA asks for this name, which newer releases of NumPy no longer have.
if not hasattr(numpy, "row_stack"):
    numpy.row_stack = numpy.vstack
from numba import cuda

OUT_OF_MEMORY = 2


class OutOfMemory(Exception):
    pass


@cuda.jit
def add_one(array):
    place = cuda.grid(1)
    if place < array.size:
        array[place] += 1


def main():
    arguments = take_words.options(__doc__)
    words = arguments.bite * take_words.MIB // 4
    context = cuda.current_context()
    small = cuda.to_device(numpy.ones(1024, dtype=numpy.float32))
    add_one[4, 256](small)

    def bite():
        try:
            return cuda.device_array(words, dtype=numpy.float32)
        except cuda.cudadrv.driver.CudaAPIError as error:
            if error.code == OUT_OF_MEMORY:
                raise OutOfMemory from None
            raise

    held = take_words.take(arguments, bite, OutOfMemory)
    cuda.synchronize()
    take_words.full(arguments, context.get_memory_info()[0])
    take_words.hold(arguments)
    if not held:
        sys.exit("nothing was granted")
    held.clear()
    context.deallocations.clear()
    print("gave all back")
    again = bite()
    print(f"one more: {arguments.bite} MiB granted")
    again[:1024].copy_to_device(numpy.ones(1024, dtype=numpy.float32))
    add_one[4, 256](again[:1024])
    if again[:1024].copy_to_host().sum() != 2048.0:
        sys.exit("wrong result after the refusal")
    take_words.memory(arguments, *context.get_memory_info())


main()
