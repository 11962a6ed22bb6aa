"""A few training steps and an inference step of small networks in PyTorch. What comes out is saved,
or compared with what an earlier run has saved, bit by bit."""
import argparse
import os
import sys


def linear_network(torch):
    return torch.nn.Sequential(
        torch.nn.Linear(256, 512), torch.nn.LayerNorm(512), torch.nn.GELU(),
        torch.nn.Linear(512, 10)), (64, 256)


def convolutions(torch):
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 32, 3, padding=1), torch.nn.BatchNorm2d(32), torch.nn.ReLU(),
        torch.nn.Conv2d(32, 64, 3, stride=2, padding=1), torch.nn.ReLU(), torch.nn.Flatten(),
        torch.nn.Linear(64 * 16 * 16, 10)), (32, 3, 32, 32)


def train(torch, made):
    network, shape = made
    network = network.cuda()
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
    losses = []
    for _ in range(4):
        data = torch.randn(shape, device="cuda")
        wanted = torch.randint(10, shape[:1], device="cuda")
        loss = torch.nn.functional.cross_entropy(network(data), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss)
    return [*losses, *network.state_dict().values()]


def infer(torch):
    layer = torch.nn.TransformerEncoderLayer(256, 4, 512, batch_first=True).cuda().half().eval()
    with torch.no_grad():
        return [layer(torch.randn(4, 128, 256, device="cuda", dtype=torch.half))]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--deterministic", action="store_true",
                        help="PyTorch's deterministic algorithms, and a fixed workspace")
    parser.add_argument("--convolutions", action="store_true",
                        help="train these as well: cuDNN's usual algorithms differ from run to run")
    parser.add_argument("--save", metavar="FILE")
    parser.add_argument("--compare", metavar="FILE")
    parser.add_argument("--close", action="store_true", help="as far as the precision goes")
    arguments = parser.parse_args()
    if arguments.deterministic:
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    import torch

    torch.use_deterministic_algorithms(arguments.deterministic)
    torch.manual_seed(7)
    result = {"training": train(torch, linear_network(torch)), "inference": infer(torch)}
    if arguments.convolutions:
        result["convolutions"] = train(torch, convolutions(torch))
    result = {name: [tensor.detach().cpu() for tensor in tensors]
              for name, tensors in result.items()}
    if arguments.save:
        torch.save(result, arguments.save)
    if not arguments.compare:
        return
    wanted = torch.load(arguments.compare)
    for name, tensors in result.items():
        for one, other in zip(tensors, wanted[name], strict=True):
            if not (torch.allclose(one, other, 1e-2, 1e-2) if arguments.close
                    else torch.equal(one, other)):
                sys.exit(f"{name}: another result, {(one - other).abs().max().item()} apart")
        print("ok", name)


main()
