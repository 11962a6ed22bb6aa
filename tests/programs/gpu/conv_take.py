"""PyTorch: a convolution by cuDNN, and a step back, before and after tensors fill the device."""
import sys

import take_words


def step(torch, layer, data):
    layer.zero_grad()
    result = layer(data).relu()
    result.mean().backward()
    torch.cuda.synchronize()
    return result.detach().cpu(), layer.weight.grad.detach().cpu()


def main():
    arguments = take_words.options(__doc__)
    import torch

    if not torch.backends.cudnn.is_available():
        sys.exit("PyTorch has no cuDNN here")
    torch.manual_seed(1)
    layer = torch.nn.Conv2d(32, 64, 3, padding=1)
    data = torch.randn(4, 32, 56, 56)
    wanted = layer(data).relu().detach()
    layer = layer.cuda()
    on_device = data.cuda()
    first, gradient = step(torch, layer, on_device)
    if not torch.allclose(first, wanted, atol=1e-2):
        sys.exit("the device computes something else than the host")
    words = arguments.bite * take_words.MIB // 4
    held = take_words.take(
        arguments, lambda: torch.full((words,), 1.0, device="cuda"), torch.OutOfMemoryError)
    take_words.hold(arguments)
    if not held:
        sys.exit("nothing was granted")
    held.pop()
    again, gradient_again = step(torch, layer, on_device)
    if not torch.allclose(first, again, atol=1e-4) or not torch.allclose(
            gradient, gradient_again, atol=1e-4):
        sys.exit("another result on the full device")
    held.clear()
    torch.cuda.empty_cache()
    torch.full((words,), 2.0, device="cuda")
    print(f"one more: {arguments.bite} MiB granted")


main()
