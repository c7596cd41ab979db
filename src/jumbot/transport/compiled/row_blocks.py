"""Passes over the kernel of one large problem: a block of rows a call, several calls in threads.

K is float32 and as large as memory is slow, so a block of rows that is in the cache is used for all that is needed
of it.  Sums are taken in the precision of the weights `w`: float32 converts nothing and is twice as fast, and its
rounding stays at some 1e-7 because partial sums are short and are themselves added in float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jumbot.transport.compiled.gibbs import add_columns, fill, lower_column_minima, row_minima
from jumbot.transport.compiled.sides import step
from jumbot.transport.compiled.vectormath import compiled, exp, log

_WIDTH = 1280  # terms of a row in a partial sum
_HEIGHT = 64  # rows of a column in a partial sum
#: Weights are scaled to e^LIFT: a product with the least entry of K is then no denormal of float32.
LIFT = 30.0
_TOP = 40.0  # e^(LIFT + TOP) n is still a float32


@compiled(fastmath=True)
def _dot(k: Any, w: Any) -> Any:
    total = w.dtype.type(0.0)
    for j in range(w.shape[0]):
        total += k[j] * w[j]
    return total


@compiled()
def _row_sum(k: Any, w: Any) -> float:
    total = 0.0
    for j in range(0, w.shape[0], _WIDTH):  # slices, because LLVM gathers from a loop that starts at j
        total += _dot(k[j : j + _WIDTH], w[j : j + _WIDTH])
    return total


@compiled()
def _half_sweep(
    K: Any, w_b: Any, top_b: float, F0: Any, o_a: Any, r_a: Any, kind: int, tau: float, low: float, high: float,
    omega: float, top_a: float, F: Any, soft: Any, w_a: Any,
) -> None:  # fmt: skip
    """F, and the weights of the rows in the column sums, from the weights of the columns."""
    n = K.shape[0]
    for i in range(n):
        soft[i] = F0[i] + o_a[i] - top_b - log(_row_sum(K[i], w_b))
    step(kind, tau, low, high, soft, omega, F, F)
    for i in range(n):
        w_a[i] = r_a[i] * exp(min(F[i] - F0[i] - top_a, _TOP))


@compiled()
def _add(part: Any, t: Any) -> None:
    """Move a partial sum to the sum."""
    for j in range(t.shape[0]):
        t[j] += part[j]
        part[j] = 0.0


@compiled()
def sweep_rows(
    C: Any, scale: float, G0: Any, skip_b: Any, cut: float, build: bool,
    K: Any, w_b: Any, top_b: float, F0: Any, o_a: Any, r_a: Any, kind: int, tau: float, low: float, high: float,
    omega: float, top_a: float, F: Any, soft: Any, w_a: Any, t: Any,
) -> None:  # fmt: skip
    """One pass over rows of K: their half of the sweep, and what they add to the column sums `t`.

    Eight rows at a time stay in the cache between the two uses, so that K is read from memory once a sweep.
    With `build` F0 and K are made on the way, and the first sweep costs no pass of its own.
    """
    n, m = K.shape
    part = np.zeros(m, dtype=w_b.dtype)
    t[:] = 0.0
    for i in range(0, n, 8):
        s = slice(i, min(i + 8, n))
        if build:
            row_minima(C[s], scale, G0, skip_b, F0[s])
            fill(C[s], scale, F0[s], G0, cut, K[s])
        _half_sweep(
            K[s], w_b, top_b, F0[s], o_a[s], r_a[s], kind, tau, low, high, omega, top_a, F[s], soft[s], w_a[s]
        )  # fmt: skip
        add_columns(K[s], w_a[s], part)
        if (i + 8) % _HEIGHT == 0:
            _add(part, t)
    _add(part, t)


@compiled()
def column_pass(K: Any, w: Any, t: Any) -> None:
    """t = K' w."""
    n, m = K.shape
    part = np.zeros(m, dtype=w.dtype)
    t[:] = 0.0
    for i in range(0, n, _HEIGHT):
        add_columns(K[i : i + _HEIGHT], w[i : i + _HEIGHT], part)
        _add(part, t)


@compiled()
def minima_of(C: Any, rows: Any, scale: float, skip_b: Any, F: Any, G0: Any) -> None:
    """Minima F of the given rows, and the column minima G0 of those rows at F."""
    none = np.zeros(C.shape[1])
    G0[:] = 1e300
    for k in range(rows.shape[0]):
        i = rows[k]
        row_minima(C[i : i + 1], scale, none, skip_b, F[k : k + 1])
        lower_column_minima(C[i : i + 1], scale, F[k : k + 1], none[:1], G0)
