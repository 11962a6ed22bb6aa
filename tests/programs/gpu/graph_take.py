"""torch.cuda.graph: a step is captured and replayed, beside tensors that fill the device."""
import graph_words
import take_words


def main():
    arguments = take_words.options(__doc__)
    import torch

    data = torch.ones(1024, 1024, device="cuda")
    graph_words.warm_up(torch, data)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        scratch = torch.full((8 * take_words.MIB,), 2.0, device="cuda")
        result = (data @ data).relu() + scratch[:1024]
    graphs = [(graph, result, 1026.0)]
    graph_words.replay(torch, graphs, "")
    print("captured and replayed")
    graph_words.fill(arguments, torch, graphs)


main()
