"""A matrix product compiled by JAX, for the tests on NVIDIA GPUs: jitted.py STEPS."""

from __future__ import annotations

import sys

import jax
import jax.numpy as jnp


@jax.jit
def step(x):  # type: ignore[no-untyped-def]
    """One product and a nonlinearity."""
    return jnp.tanh(x @ x)


value = jnp.ones((2048, 2048), jnp.float32)
for _ in range(int(sys.argv[1])):
    value = step(value)
value.block_until_ready()
print("done", flush=True)
