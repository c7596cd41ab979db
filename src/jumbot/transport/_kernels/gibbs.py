"""The kernel matrix K = e^{F0 + G0 - C/epsilon} of one problem and the passes over it, compiled.

K has its row and column maxima at one, and entries below e^-CUT are dropped.  A pass over it is exact to
e^(SPREAD - CUT) while the log-scalings of the other side spread by at most SPREAD; where they spread further K is built
anew around the current potentials.  All is in units of epsilon: F = f/epsilon.
"""

from __future__ import annotations

import math
from typing import Any

from jumbot.transport._kernels.decorator import compiled
from jumbot.transport._kernels.vectormath import exp, greater, lesser, log

CUT = 400.0
SPREAD = 250.0
#: Entries of a plan below e^-LEAST are zero, and above e^MOST wrong but finite, also times weights: see `cut_off`.
LEAST, MOST = 650.0, 600.0


@compiled(fastmath=True)
def total(x: Any) -> float:
    result = 0.0
    for i in range(x.shape[0]):
        result += x[i]
    return result


@compiled(fastmath=True)
def inner(x: Any, y: Any) -> float:
    total = 0.0
    for j in range(x.shape[0]):
        total += x[j] * y[j]
    return total


@compiled(fastmath=True)
def row_sums(K: Any, w: Any, s: Any) -> None:
    """s = K w, four rows at a time: their sums do not wait for each other, and w is read once for all."""
    n = K.shape[0]
    blocked = n // 4 * 4
    for i in range(0, blocked, 4):
        k0, k1, k2, k3, s0, s1, s2, s3 = K[i], K[i + 1], K[i + 2], K[i + 3], 0.0, 0.0, 0.0, 0.0
        for j in range(w.shape[0]):
            s0 += k0[j] * w[j]
            s1 += k1[j] * w[j]
            s2 += k2[j] * w[j]
            s3 += k3[j] * w[j]
        s[i], s[i + 1], s[i + 2], s[i + 3] = s0, s1, s2, s3
    for i in range(blocked, n):
        s[i] = inner(K[i], w)


@compiled(fastmath=True)
def add_columns(K: Any, w: Any, t: Any) -> None:
    """t += K' w, four rows at a time."""
    n = K.shape[0]
    blocked = n // 4 * 4
    for i in range(0, blocked, 4):
        k0, k1, k2, k3, w0, w1, w2, w3 = K[i], K[i + 1], K[i + 2], K[i + 3], w[i], w[i + 1], w[i + 2], w[i + 3]
        for j in range(t.shape[0]):
            t[j] += (w0 * k0[j] + w1 * k1[j]) + (w2 * k2[j] + w3 * k3[j])
    for i in range(blocked, n):
        k0, w0 = K[i], w[i]
        for j in range(t.shape[0]):
            t[j] += w0 * k0[j]


@compiled()
def set_all(x: Any, value: float) -> None:
    for i in range(x.shape[0]):
        x[i] = value


@compiled()
def shifted(x: Any, t: float, out: Any) -> None:
    """out = x + t."""
    for i in range(x.shape[0]):
        out[i] = x[i] + t


@compiled()
def soften(base: Any, offset: Any, top: float, sums: Any, out: Any) -> None:
    """Soft minima from the sums over K with weights of scale e^top."""
    for i in range(sums.shape[0]):
        out[i] = base[i] + offset[i] - top - log(sums[i])


@compiled()
def negated(r: Any, x: Any, out: Any) -> None:
    """What the minima add to costs: -x, or more than any cost where there is no weight."""
    for i in range(r.shape[0]):
        out[i] = -x[i] if r[i] > 0.0 else 1e200


@compiled(fastmath=True)
def row_minima(C: Any, scale: float, added: Any, out: Any) -> None:
    """One row after the other: read from memory, four at a time take longer unless they are long."""
    for i in range(C.shape[0]):
        row, least = C[i], 1e300
        for j in range(row.shape[0]):
            least = lesser(least, row[j] * scale + added[j])
        out[i] = least


@compiled(fastmath=True)
def lower_column_minima(C: Any, scale: float, added: Any, out: Any) -> None:
    for i in range(C.shape[0]):
        row, more = C[i], added[i]
        for j in range(row.shape[0]):
            out[j] = min(out[j], row[j] * scale + more)


@compiled()
def fill(C: Any, scale: float, F: Any, G: Any, cut: float, K: Any) -> None:
    """K = e^{F + G - C/epsilon}, zero below e^-cut."""
    for i in range(C.shape[0]):
        row, kernel, shift = C[i], K[i], F[i]
        for j in range(row.shape[0]):
            x = min(shift + G[j] - row[j] * scale, MOST)
            kernel[j] = exp(x) if x > -cut else 0.0


@compiled()
def cut_off(K: Any) -> bool:
    """Whether `fill` has cut off an entry at e^MOST: weights may make such a plan look harmless, but it is another."""
    most, bound = 0.0, math.exp(MOST - 0.1)
    for i in range(K.shape[0]):
        row = K[i]
        for j in range(row.shape[0]):
            most = greater(most, row[j])
    return most > bound


@compiled()
def build(
    C: Any,
    scale: float,
    F: Any,
    G: Any,
    r_a: Any,
    r_b: Any,
    rows_first: bool,
    F0: Any,
    G0: Any,
    K: Any,
    work_a: Any,
    work_b: Any,
) -> None:
    """K around F0, G0 whose row and column maxima are one: made for a pass over rows at G, or over columns at F."""
    if rows_first:
        negated(r_b, G, work_b)
        row_minima(C, scale, work_b, F0)
    negated(r_a, F0 if rows_first else F, work_a)
    set_all(G0, 1e300)
    lower_column_minima(C, scale, work_a, G0)
    if not rows_first:
        negated(r_b, G0, work_b)
        row_minima(C, scale, work_b, F0)
    fill(C, scale, F0, G0, CUT, K)


@compiled()
def scalings(r: Any, x: Any, x0: Any, out: Any) -> tuple[float, float]:
    """out = r e^{x - x0 - top}; returns top and how far x - x0 spreads."""
    top, low = -1e300, 1e300
    for i in range(r.shape[0]):
        y, far = x[i] - x0[i], 0.0 if r[i] > 0.0 else 1e300  # chosen once: two choices are not vectorised
        top, low = greater(top, y - far), lesser(low, y + far)
    for i in range(r.shape[0]):
        y = min(x[i] - x0[i] - top, 0.0)
        out[i] = r[i] * exp(y) if y > -SPREAD * 2 else 0.0
    return top, top - low


@compiled(fastmath=True)
def scale_to_plan(K: Any, times: float, u: Any, v: Any, C: Any, rows: Any, columns: Any) -> tuple[float, float]:
    """K becomes P = times u K v, its marginals are written to `rows` and added to `columns`.

    Returns <C, P> and <|C|, P>.
    """
    linear = size = 0.0
    for i in range(K.shape[0]):
        plan, cost, factor, mass = K[i], C[i], times * u[i], 0.0
        for j in range(v.shape[0]):
            p = factor * plan[j] * v[j]
            plan[j] = p
            columns[j] += p
            mass += p
            linear += p * cost[j]
            size += p * abs(cost[j])
        rows[i] = mass
    return linear, size
