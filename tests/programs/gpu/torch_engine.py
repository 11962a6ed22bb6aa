"""PyTorch, as inference engines use it: nine tenths of what the device is said to have are taken at
the start for a cache, less what is in use already, and worked on."""
import sys

import take_words

LAYERS = 32


def main():
    arguments = take_words.options(__doc__)
    import torch

    free, total = torch.cuda.mem_get_info()
    layer = (total * 9 // 10 - (total - free)) // LAYERS // take_words.MIB
    arguments.bite, arguments.count = layer, LAYERS
    cache = take_words.take(
        arguments,
        lambda: torch.full((layer * take_words.MIB // 4,), 1.0, device="cuda"),
        torch.OutOfMemoryError)
    data = torch.ones(1024, 1024, device="cuda")
    if (data @ data).sum().item() != 1024.0 ** 3:
        sys.exit("wrong result beside the cache")
    take_words.hold(arguments)
    if len(cache) < LAYERS:
        sys.exit(f"only {len(cache)} layers of {LAYERS} were granted")
    if any(tensor[-1].item() != 1.0 for tensor in cache):
        sys.exit("the cache lost its contents")
    print(f"one more: {layer} MiB granted")


main()
