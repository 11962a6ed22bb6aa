"""One training step of a small network in PyTorch, and what it comes to."""
import take_words


def main():
    arguments = take_words.options(__doc__)
    take_words.torch_allocator(arguments)
    import torch

    torch.manual_seed(1)
    network = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(),
                                  torch.nn.Linear(512, 10)).cuda()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    data = torch.randn(64, 256, device="cuda")
    wanted = torch.randint(10, (64,), device="cuda")
    loss = torch.nn.functional.cross_entropy(network(data), wanted)
    loss.backward()
    optimizer.step()
    torch.cuda.synchronize()
    print(f"loss {loss.item():.6f}")


main()
