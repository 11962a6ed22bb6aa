"""JAX fills the device with arrays until RESOURCE_EXHAUSTED, and works on, or ends with all of them."""
import os
import sys

import numpy

import take_words


class ResourceExhausted(Exception):
    pass


def settings(arguments):
    """Read by JAX when it starts. Either it takes its part of the device at once, or memory as it
    is needed, up to nearly all that there seems to be."""
    if not arguments.fraction:
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        os.environ.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.98")
    elif arguments.fraction != 0.75:
        os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] = str(arguments.fraction)
    if arguments.ordered:
        os.environ["XLA_PYTHON_CLIENT_ALLOCATOR"] = "cuda_async"


def part_of_the_device(arguments, statistics):
    """Its own pool says how much it may use, which is so much of what the device seems to have."""
    limit = (statistics or {}).get("bytes_limit")
    if not limit:
        return
    print(f"JAX may use {limit / take_words.MIB:.1f} MiB", flush=True)
    part = float(os.environ.get("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.75"))
    wanted = arguments.total * part * take_words.MIB
    # The fraction is one of single precision.
    if arguments.total and abs(limit - wanted) > max(wanted / 10000, take_words.MIB):
        sys.exit(f"JAX may use {limit} bytes, not {wanted}")


def keep(held):
    """What was granted is there. Ends at once, since else the arrays would be given back."""
    for array in held:
        if not (numpy.asarray(array) == 1.0).all():
            sys.exit("wrong data after the refusal")
    print(f"keeps all: {len(held)} arrays", flush=True)
    os._exit(0)


def main():
    arguments = take_words.options(__doc__)
    settings(arguments)
    import jax
    import jax.numpy as jnp

    if jax.default_backend() != "gpu":
        sys.exit(f"JAX runs on {jax.default_backend()}, not on the GPU")
    words = arguments.bite * take_words.MIB // 4

    def bite():
        try:
            return jnp.full((words,), 1.0, dtype=jnp.float32).block_until_ready()
        except Exception as error:
            if "RESOURCE_EXHAUSTED" in str(error):
                raise ResourceExhausted from None
            raise

    held = take_words.take(arguments, bite, ResourceExhausted)
    if not arguments.ordered:
        part_of_the_device(arguments, jax.devices()[0].memory_stats())
    take_words.hold(arguments)
    if not held:
        sys.exit("nothing was granted")
    if arguments.keep:
        keep(held)
    held.clear()
    print("gave all back")
    again = bite()
    print(f"one more: {arguments.bite} MiB granted")
    if float(again[:1024].sum()) != 1024.0:
        sys.exit("wrong result after the refusal")


main()
