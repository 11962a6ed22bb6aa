"""What the programs of captured graphs share: the steps before the first capture, and the device that
is filled beside the graphs.
"""
import sys

import take_words


def warm_up(torch, data):
    """What PyTorch asks for before a capture: the work a few times, on a stream of its own."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            (data @ data).relu()
    torch.cuda.current_stream().wait_stream(stream)


def replay(torch, graphs, where):
    """graphs: of each the graph, its result and what that must be."""
    for graph, result, expected in graphs:
        graph.replay()
        torch.cuda.synchronize()
        if not torch.all(result == expected).item():
            sys.exit(f"wrong result of a replay{where}")


def fill(arguments, torch, graphs):
    """Tensors until the refusal, replays on the full device, and one more when all are given back."""
    words = arguments.bite * take_words.MIB // 4
    held = take_words.take(
        arguments, lambda: torch.full((words,), 1.0, device="cuda"), torch.OutOfMemoryError)
    replay(torch, graphs, " on the full device")
    take_words.hold(arguments)
    if not held:
        sys.exit("nothing left beside the graphs")
    held.clear()
    torch.cuda.empty_cache()
    again = torch.full((words,), 1.0, device="cuda")
    print(f"one more: {arguments.bite} MiB granted")
    if again[-1].item() != 1.0:
        sys.exit("wrong result after the refusal")
