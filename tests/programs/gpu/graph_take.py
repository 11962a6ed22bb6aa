"""torch.cuda.graph: a step is captured and replayed, beside tensors that fill the device."""
import sys

import take_words


def main():
    arguments = take_words.options(__doc__)
    import torch

    data = torch.ones(1024, 1024, device="cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            (data @ data).relu()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        scratch = torch.full((8 * take_words.MIB,), 2.0, device="cuda")
        result = (data @ data).relu() + scratch[:1024]
    graph.replay()
    torch.cuda.synchronize()
    if not torch.all(result == 1026.0).item():
        sys.exit("wrong result of the replay")
    print("captured and replayed")
    words = arguments.bite * take_words.MIB // 4
    held = take_words.take(
        arguments, lambda: torch.full((words,), 1.0, device="cuda"), torch.OutOfMemoryError)
    graph.replay()
    torch.cuda.synchronize()
    take_words.hold(arguments)
    if not held or not torch.all(result == 1026.0).item():
        sys.exit("wrong result of the replay on the full device")
    held.clear()
    torch.cuda.empty_cache()
    again = torch.full((words,), 1.0, device="cuda")
    print(f"one more: {arguments.bite} MiB granted")
    if again[-1].item() != 1.0:
        sys.exit("wrong result after the refusal")


main()
