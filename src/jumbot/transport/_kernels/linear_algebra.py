"""The linear systems of the interior point, factored without one subtraction.

    [ D1  W  ] [x]   [r]
    [ W'  D2 ] [y] = [c],      D1 = diag(W1 + slope_a),  D2 = diag(W'1 + slope_b),   W > 0,  slopes >= 0

The Schur complement S = D1 - W D2^-1 W' has negative off-diagonal entries and the positive row sums
`excess` = slope_a + W (slope_b / D2). Its Cholesky factor is computed from those row sums in place of the
diagonal (the idea of Grassmann, Taksar and Heyman for Markov chains): only positive numbers are added, so the
factor is accurate entry by entry however ill-conditioned S becomes while the plan grows sparse.
"""

from __future__ import annotations

import math

from numpy.typing import NDArray

from jumbot.transport._kernels.decorator import compiled
from jumbot.transport._kernels.vectormath import lesser

#: Rows are padded with zeros to a multiple of this: the vectorised loops then leave no remainder.
BLOCK = 16


@compiled(inline="always")
def padded(count: int) -> int:
    return (count + BLOCK - 1) // BLOCK * BLOCK


@compiled(fastmath=True)
def factor(
    W: NDArray,
    D2: NDArray,
    slope_a: NDArray,
    slope_b: NDArray,
    L: NDArray,
    root: NDArray,
    excess: NDArray,
    t: NDArray,
) -> None:
    """Fill L = [W D2^-1/2, minus the strict lower Cholesky factor of S] and `root`, one over its diagonal.

    With both parts in one row, an entry of S after k eliminations is one dot product of two rows of L.
    """
    n, m = W.shape
    width = padded(m)
    for j in range(m):
        t[j] = 1.0 / math.sqrt(D2[j])
    for i in range(n):
        # row slices, here and below: indexed as L[i, j] LLVM does not vectorise the loop
        row, w, total = L[i], W[i], slope_a[i]
        for j in range(m):
            row[j] = w[j] * t[j]
            total += row[j] * t[j] * slope_b[j]
        excess[i] = total
    for k in range(n):
        stop = width + padded(k)
        row, total = L[k, :stop], excess[k]
        whole = n - (n - k - 1) % 4
        for i in range(k + 1, whole, 4):
            r0, r1, r2, r3 = L[i, :stop], L[i + 1, :stop], L[i + 2, :stop], L[i + 3, :stop]
            t0 = t1 = t2 = t3 = 0.0
            for j in range(row.size):
                t0 += row[j] * r0[j]
                t1 += row[j] * r1[j]
                t2 += row[j] * r2[j]
                t3 += row[j] * r3[j]
            t[i], t[i + 1], t[i + 2], t[i + 3] = t0, t1, t2, t3
            total += t0 + t1 + t2 + t3
        for i in range(whole, n):
            r0, t0 = L[i, :stop], 0.0
            for j in range(row.size):
                t0 += row[j] * r0[j]
            t[i] = t0
            total += t0
        root[k] = 1.0 / math.sqrt(total)
        share = excess[k] * root[k]
        for i in range(k + 1, n):
            t0 = t[i] * root[k]
            L[i, width + k] = t0
            excess[i] += t0 * share


@compiled(fastmath=True)
def solve(W: NDArray, D2: NDArray, L: NDArray, root: NDArray, x: NDArray, y: NDArray, t: NDArray) -> None:
    """Overwrite the right side (r, c) in (x, y) with the solution."""
    n, m = W.shape
    width = padded(m)
    for j in range(m):
        t[j] = y[j] / D2[j]
    for i in range(n):
        w, lower, total = W[i], L[i, width : width + i], x[i]
        for j in range(m):
            total -= w[j] * t[j]
        for k in range(i):
            total += lower[k] * x[k]
        x[i] = total * root[i]
    for i in range(n - 1, -1, -1):
        lower, value = L[i, width : width + i], x[i] * root[i]
        x[i] = value
        for k in range(i):
            x[k] += lower[k] * value
    for i in range(n):
        w, value = W[i], x[i]
        for j in range(m):
            y[j] -= w[j] * value
    for j in range(m):
        y[j] /= D2[j]


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
def lowest(x: NDArray) -> float:
    t = x[0]
    for i in range(x.size):
        t = lesser(t, x[i])
    return t
