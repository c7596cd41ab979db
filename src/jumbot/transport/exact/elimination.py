"""The linear systems of the interior point, solved without one subtraction in the factor.

    [ D1  W  ] [x]   [r]
    [ W'  D2 ] [y] = [c],      D1 = diag(W1 + slope_a),  D2 = diag(W'1 + slope_b),   W > 0,  slopes >= 0

The Schur complement S = D2 - W' D1^-1 W has negative off-diagonal entries and the positive row sums
slope_b + W' (slope_a / D1). Keeping those row sums instead of the diagonal (as Grassmann, Taksar and Heyman did for
Markov chains), elimination only adds positive numbers: the factor stays accurate entry by entry however
ill-conditioned S becomes as the plan grows sparse.
"""

from __future__ import annotations

from numpy.typing import NDArray

from jumbot.transport.vectormath import compiled

#: Rows are padded to a multiple of this, so that the vectorised loops leave no remainder.
BLOCK = 16


@compiled(fastmath=True)
def _add_rows(row: NDArray, weights: NDArray, count: int, matrix: NDArray, start: int, stop: int) -> None:
    """row[start:stop] += sum_k weights[k] matrix[k, start:stop], four rows a pass."""
    out = row[start:stop]
    even = count - count % 4
    for k in range(0, even, 4):
        w0, w1, w2, w3 = weights[k], weights[k + 1], weights[k + 2], weights[k + 3]
        # slices, not matrix[k, j]: only so does LLVM vectorise the loop
        r0, r1, r2, r3 = (
            matrix[k, start:stop], matrix[k + 1, start:stop], matrix[k + 2, start:stop], matrix[k + 3, start:stop]
        )  # fmt: skip
        for j in range(out.size):
            out[j] += w0 * r0[j] + w1 * r1[j] + w2 * r2[j] + w3 * r3[j]
    for k in range(even, count):
        w0, r0 = weights[k], matrix[k, start:stop]
        for j in range(out.size):
            out[j] += w0 * r0[j]


@compiled(fastmath=True)
def factor(
    W: NDArray, D1: NDArray, slope_a: NDArray, slope_b: NDArray, m: int,
    V: NDArray, U: NDArray, pivot: NDArray, weights: NDArray, excess: NDArray,
) -> None:  # fmt: skip
    """U (minus the off-diagonal of the eliminated S, upper half) and the pivots; V = D1^-1 W is work space."""
    n, width = W.shape
    for k in range(m):
        excess[k] = slope_b[k]
    for i in range(n):
        t = 1.0 / D1[i]
        for j in range(width):
            V[i, j] = W[i, j] * t
        t *= slope_a[i]
        for j in range(m):
            excess[j] += W[i, j] * t
    for k in range(m):
        start = (k + 1) // BLOCK * BLOCK
        row = U[k]
        for j in range(start, width):
            row[j] = 0.0
        for i in range(n):
            weights[i] = W[i, k]
        _add_rows(row, weights, n, V, start, width)
        total = excess[k]
        for i in range(k):
            weights[i] = U[i, k] / pivot[i]
            total += weights[i] * excess[i]
        _add_rows(row, weights, k, U, start, width)
        excess[k] = total
        for j in range(k + 1, m):
            total += row[j]
        pivot[k] = total


@compiled(fastmath=True)
def solve(W: NDArray, D1: NDArray, U: NDArray, pivot: NDArray, m: int, r: NDArray, x: NDArray, y: NDArray) -> None:
    """x and y for the right side (r, y): y is overwritten."""
    n = W.shape[0]
    for i in range(n):
        t = r[i] / D1[i]
        for j in range(m):
            y[j] -= W[i, j] * t
    for k in range(m):
        t = y[k] / pivot[k]
        y[k] = t
        for j in range(k + 1, m):
            y[j] += U[k, j] * t
    for k in range(m - 1, -1, -1):
        t = 0.0
        for j in range(k + 1, m):
            t += U[k, j] * y[j]
        y[k] += t / pivot[k]
    for i in range(n):
        t = 0.0
        for j in range(m):
            t += W[i, j] * y[j]
        x[i] = (r[i] - t) / D1[i]
