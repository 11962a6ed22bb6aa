"""JAX fills the device with arrays until RESOURCE_EXHAUSTED, and works on."""
import os
import sys

import take_words

# Read by JAX when it starts: take memory as it is needed, up to nearly all that there seems to be.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
os.environ.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.98")


class ResourceExhausted(Exception):
    pass


def main():
    arguments = take_words.options(__doc__)
    if arguments.ordered:
        os.environ["XLA_PYTHON_CLIENT_ALLOCATOR"] = "cuda_async"
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
    take_words.hold(arguments)
    if not held:
        sys.exit("nothing was granted")
    held.clear()
    print("gave all back")
    again = bite()
    print(f"one more: {arguments.bite} MiB granted")
    if float(again[:1024].sum()) != 1024.0:
        sys.exit("wrong result after the refusal")


main()
