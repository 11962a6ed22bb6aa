"""What the Python programs of this folder share: their options, their words, and the pause in
which someone looks at the process from outside. The words are those of tests/programs/take_run.c.
"""
import argparse
import os
import sys

MIB = 1 << 20


def options(text):
    parser = argparse.ArgumentParser(description=text)
    parser.add_argument("--bite", type=int, default=64, help="MiB of a bite")
    parser.add_argument("--count", type=int, default=256, help="at most so many bites")
    parser.add_argument("--hold", action="store_true", help="wait for a line on stdin when full")
    parser.add_argument("--async", dest="ordered", action="store_true",
                        help="the stream-ordered allocator")
    parser.add_argument("--segments", action="store_true",
                        help="PyTorch's allocator with expandable segments")
    parser.add_argument("--total", type=int, default=0,
                        help="MiB that the device must seem to have (0: do not look)")
    parser.add_argument("--fraction", type=float, default=0,
                        help="JAX: of the device, all at once (0: as needed; 0.75 is its default)")
    parser.add_argument("--keep", action="store_true",
                        help="JAX: end with all that was granted, and give nothing back")
    parser.add_argument("--denied", action="store_true", help="the first use must raise")
    return parser.parse_args()


def torch_allocator(arguments):
    """Which one PyTorch is to use: read when it is imported."""
    if arguments.ordered:
        os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "backend:cudaMallocAsync"
    if arguments.segments:
        os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"


def take(arguments, bite, refusal):
    """Calls bite() until it raises `refusal`; any other exception goes on to the caller."""
    held = []
    for i in range(1, arguments.count + 1):
        try:
            held.append(bite())
            print(f"bite {i}: {arguments.bite} MiB granted", flush=True)
        except refusal as error:
            print(f"bite {i}: {arguments.bite} MiB refused: {type(error).__name__}", flush=True)
            break
    return held


def full(arguments, free):
    """After a refusal: less is free than a bite and a step in which allocators grow."""
    print(f"full: {free // MIB} MiB free", flush=True)
    if free >= (arguments.bite + 32) * MIB:
        sys.exit(f"refused while {free // MIB} MiB were free")


def hold(arguments):
    print(f"holding, pid {os.getpid()}", flush=True)
    if arguments.hold:
        sys.stdin.readline()


def memory(arguments, free, *totals):
    """Every answer of how much memory the device has must be the same."""
    print(f"memory: {free // MIB} MiB free of {totals[0] // MIB} MiB", flush=True)
    for total in totals:
        if arguments.total and total != arguments.total * MIB:
            sys.exit(f"the device seems to have {total} bytes, not {arguments.total} MiB")
