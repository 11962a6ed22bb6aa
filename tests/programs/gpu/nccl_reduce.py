"""Two processes of PyTorch, each on a GPU of its own within its own budget, add up tensors by NCCL.
Each case is a line "ok" or "not ok".
"""
import argparse
import datetime
import os

import torch
import torch.distributed
import torch.multiprocessing

MIB = 1 << 20
WORDS = 16 * MIB


def rank_of(rank, totals):
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ.setdefault("MASTER_PORT", "29517")
    torch.cuda.set_device(rank)
    total = torch.cuda.mem_get_info()[1]
    if total != totals[rank] * MIB:
        raise SystemExit(f"rank {rank} sees {total} bytes, not {totals[rank]} MiB")
    torch.distributed.init_process_group("nccl", rank=rank, world_size=2,
                                         timeout=datetime.timedelta(seconds=60))
    for _ in range(3):
        data = torch.full((WORDS,), float(rank + 1), device="cuda")
        torch.distributed.all_reduce(data)
        if not torch.all(data == 3.0).item():
            raise SystemExit(f"rank {rank}: a wrong sum")
    held = []
    try:
        while True:
            held.append(torch.empty(WORDS, device="cuda"))
    except torch.OutOfMemoryError:
        held.clear()
    torch.cuda.empty_cache()
    # It works on after the refusal.
    data = torch.full((WORDS,), float(rank + 1), device="cuda")
    torch.distributed.all_reduce(data)
    if not torch.all(data == 3.0).item():
        raise SystemExit(f"rank {rank}: a wrong sum after the refusal")
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("totals", type=int, nargs=2, help="MiB that each must have")
    totals = parser.parse_args().totals
    try:
        torch.multiprocessing.spawn(rank_of, args=(totals,), nprocs=2)
    except Exception as error:
        print(f"not ok all-reduce: {str(error).strip().splitlines()[-1]}")
        return
    print("ok all-reduce")


if __name__ == "__main__":
    main()
