"""torch.cuda.graph, while a second thread allocates and frees: steps are captured and replayed."""
import sys
import threading

import graph_words
import take_words


def main():
    arguments = take_words.options(__doc__)
    take_words.torch_allocator(arguments)
    import torch

    wrong = []
    done = threading.Event()
    captured = threading.Event()

    def beside():
        words = 3 * take_words.MIB
        kept, rounds = [], 0
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                while not done.is_set() or rounds < 100:
                    rounds += 1
                    size = words + 4096 * (rounds % 7)
                    kept.append(torch.full((size,), float(rounds), device="cuda"))
                    if len(kept) > 4:
                        first = kept.pop(0)
                        if first[-1].item() != float(rounds - 4):
                            raise ValueError(f"round {rounds}: wrong data")
                    captured.set()
        except Exception as error:
            wrong.append(repr(error))
            captured.set()

    data = torch.ones(1024, 1024, device="cuda")
    graph_words.warm_up(torch, data)
    torch.cuda.synchronize()
    other = threading.Thread(target=beside)
    other.start()
    captured.wait()
    graphs, scratches = [], []
    for i in range(3):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            scratch = torch.full((2 * take_words.MIB,), float(i), device="cuda")
            result = (data @ data).relu() + scratch[:1024]
        scratches.append(scratch)
        graphs.append((graph, result, 1024.0 + i))
        graph.replay()
    graph_words.replay(torch, graphs, "")
    done.set()
    other.join()
    if wrong:
        sys.exit(f"beside the captures: {wrong[0]}")
    print("captured and replayed beside the other thread")
    graph_words.fill(arguments, torch, graphs)


main()
