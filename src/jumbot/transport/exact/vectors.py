"""Loops over vectors: numba compiles these in a tenth of the time that it takes for array expressions."""

from __future__ import annotations

from numpy.typing import NDArray

from jumbot.transport.compiled.decorator import compiled
from jumbot.transport.compiled.vectormath import lesser


@compiled(fastmath=True)
def copy(x: NDArray, out: NDArray) -> None:
    for i in range(x.size):
        out[i] = x[i]


@compiled(fastmath=True)
def add(x: NDArray, t: float, d: NDArray) -> None:
    """x += t d."""
    for i in range(x.size):
        x[i] += t * d[i]


@compiled(fastmath=True)
def total(x: NDArray) -> float:
    t = 0.0
    for i in range(x.size):
        t += x[i]
    return t


@compiled(fastmath=True)
def lowest(x: NDArray) -> float:
    t = x[0]
    for i in range(x.size):
        t = lesser(t, x[i])
    return t
