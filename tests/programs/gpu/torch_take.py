"""PyTorch fills the device with tensors until torch.OutOfMemoryError, and works on."""
import sys

import take_words


def denied(torch):
    """A limit that cannot be understood: PyTorch must see the device and fail to use it."""
    if not torch.cuda.is_available():
        sys.exit("torch.cuda.is_available() is false: PyTorch would fall back to the CPU")
    try:
        torch.zeros(1, device="cuda")
    except RuntimeError as error:
        print(f"first use refused: {str(error).splitlines()[0]}")
        return
    sys.exit("the first use of the device succeeded")


def main():
    arguments = take_words.options(__doc__)
    take_words.torch_allocator(arguments)
    import torch

    if arguments.denied:
        denied(torch)
        return
    words = arguments.bite * take_words.MIB // 4
    held = take_words.take(
        arguments, lambda: torch.full((words,), 1.0, device="cuda"), torch.OutOfMemoryError)
    torch.cuda.synchronize()
    take_words.full(arguments, torch.cuda.mem_get_info()[0])
    take_words.hold(arguments)
    if not held:
        sys.exit("nothing was granted")
    if any(tensor[-1].item() != 1.0 for tensor in held):
        sys.exit("a tensor lost its contents")
    held.clear()
    torch.cuda.empty_cache()
    print("gave all back")
    small = torch.ones(256, 256, device="cuda")
    if (small @ small).sum().item() != 256.0 ** 3:
        sys.exit("wrong result after the refusal")
    again = torch.full((words,), 2.0, device="cuda")
    print(f"one more: {arguments.bite} MiB granted")
    if again.sum().item() <= 0:
        sys.exit("wrong result in the new tensor")
    take_words.memory(arguments, *torch.cuda.mem_get_info(),
                      torch.cuda.get_device_properties(0).total_memory)


main()
