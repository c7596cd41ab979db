"""Passes over the kernel of one large problem: a block of rows a call, several calls in threads.

K is float32 and as large as memory is slow, so a block of rows that is in the cache is used for all that is needed
of it.  Sums are taken in the precision of the weights `w`: float32 converts nothing and is twice as fast, and its
rounding stays at some 1e-7 because partial sums are short and are themselves added in float64.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from jumbot.transport._kernels.decorator import compiled
from jumbot.transport._kernels.gibbs import (
    LEAST,
    add_columns,
    cut_off,
    fill,
    lower_column_minima,
    negated,
    row_minima,
    set_all,
)
from jumbot.transport._kernels.sides import OVER, STEPS
from jumbot.transport._kernels.vectormath import exp, exp_single, lesser, log

_WIDTH = 1280  # terms of a row in a partial sum
_HEIGHT = 64  # rows of a column in a partial sum
#: Weights are scaled to e^LIFT: a product with the least entry of K is then no denormal of float32.
LIFT = 30.0
_TOP = 40.0  # e^(LIFT + TOP) n is still a float32
_MOST = 88.0  # entries of K above e^MOST would be wrong but finite; there are none, as its maxima are one
_ZERO = np.float32(0.0)


@compiled(fastmath=True)
def _add_products(k0: Any, k1: Any, k2: Any, k3: Any, w: Any, sums: Any) -> None:
    """Add four products with w to four sums: they do not wait for each other, and w is read once for all."""
    s0 = s1 = s2 = s3 = w.dtype.type(0.0)
    for j in range(w.shape[0]):
        s0 += k0[j] * w[j]
        s1 += k1[j] * w[j]
        s2 += k2[j] * w[j]
        s3 += k3[j] * w[j]
    sums[0] += s0
    sums[1] += s1
    sums[2] += s2
    sums[3] += s3


@compiled()
def _row_sums(K: Any, w: Any, sums: Any) -> None:
    """K w of at most four rows into `sums` `(4,)`; those that are missing are the last one again."""
    last = K.shape[0] - 1
    k0, k1, k2, k3 = K[0], K[min(1, last)], K[min(2, last)], K[last]
    set_all(sums, 0.0)
    for j in range(0, w.shape[0], _WIDTH):  # slices, because LLVM gathers from a loop that starts at j
        s = slice(j, j + _WIDTH)
        _add_products(k0[s], k1[s], k2[s], k3[s], w[s], sums)


@compiled(fastmath=True)
def _add_eight_rows(K: Any, w: Any, t: Any) -> None:
    """t += K' w of eight rows: t, which is as long as they are, is read and written once for all."""
    k0, k1, k2, k3, k4, k5, k6, k7 = K[0], K[1], K[2], K[3], K[4], K[5], K[6], K[7]
    w0, w1, w2, w3, w4, w5, w6, w7 = w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7]
    for j in range(t.shape[0]):
        t[j] += ((w0 * k0[j] + w1 * k1[j]) + (w2 * k2[j] + w3 * k3[j])) + (
            (w4 * k4[j] + w5 * k5[j]) + (w6 * k6[j] + w7 * k7[j])
        )


@compiled()
def _add(part: Any, t: Any) -> None:
    """Move a partial sum to the sum."""
    for j in range(t.shape[0]):
        t[j] += part[j]
        part[j] = 0.0


@compiled(allocates=True)
def column_pass(K: Any, w: Any, t: Any) -> None:
    """t = K' w."""
    n, m = K.shape
    part = np.zeros(m, dtype=w.dtype)
    set_all(t, 0.0)
    for i in range(0, n, _HEIGHT):
        add_columns(K[i : i + _HEIGHT], w[i : i + _HEIGHT], part)
        _add(part, t)


@compiled(allocates=True)
def minima_of(C: Any, rows: Any, scale: float, added: Any, F: Any, G0: Any) -> None:
    """Minima F of the given rows, and the column minima G0 of those rows at F."""
    shift = np.empty(1)
    set_all(G0, 1e300)
    for k in range(rows.shape[0]):
        i = rows[k]
        row_minima(C[i : i + 1], scale, added, F[k : k + 1])
        shift[0] = -F[k]
        lower_column_minima(C[i : i + 1], scale, shift, G0)


@compiled(allocates=True)
def minima(C: Any, scale: float, added: Any, r_a: Any, F0: Any, G0: Any) -> None:
    """Row minima F0, then column minima G0 at F0, reading C once: a row stays in the cache in between."""
    shift = np.empty(C.shape[0])
    set_all(G0, 1e300)
    for i in range(0, C.shape[0], 8):
        j = min(i + 8, C.shape[0])
        row_minima(C[i:j], scale, added, F0[i:j])
        negated(r_a[i:j], F0[i:j], shift[i:j])
        lower_column_minima(C[i:j], scale, shift[i:j], G0)


@compiled(fastmath=True)
def long_row_minima(C: Any, scale: float, added: Any, out: Any) -> None:
    """`row_minima`, four rows at a time: their minima do not wait for each other."""
    n = C.shape[0]
    blocked = n // 4 * 4
    for i in range(0, blocked, 4):
        c0, c1, c2, c3, m0, m1, m2, m3 = C[i], C[i + 1], C[i + 2], C[i + 3], 1e300, 1e300, 1e300, 1e300
        for j in range(added.shape[0]):
            m0, m1 = lesser(m0, c0[j] * scale + added[j]), lesser(m1, c1[j] * scale + added[j])
            m2, m3 = lesser(m2, c2[j] * scale + added[j]), lesser(m3, c3[j] * scale + added[j])
        out[i], out[i + 1], out[i + 2], out[i + 3] = m0, m1, m2, m3
    row_minima(C[blocked:], scale, added, out[blocked:])


@compiled()
def fill_single(C: Any, scale: float, F: Any, G: Any, cut: float, K: Any) -> None:
    """`fill` in float32, in three fifths of the time."""
    for i in range(C.shape[0]):
        row, kernel, shift = C[i], K[i], F[i]
        for j in range(row.shape[0]):
            x = min(shift + G[j] - row[j] * scale, _MOST)
            kernel[j] = exp_single(x) if x > -cut else _ZERO


@compiled(fastmath=True)
def _plan_sums(P: Any, C: Any, rows: Any, columns: Any) -> tuple[float, float]:
    """Row sums of P into `rows`, its column sums added to `columns`; returns <C, P> and <|C|, P>."""
    n, linear, size = P.shape[0], 0.0, 0.0
    blocked = n // 4 * 4
    for i in range(0, blocked, 4):
        p0, p1, p2, p3, c0, c1, c2, c3 = P[i], P[i + 1], P[i + 2], P[i + 3], C[i], C[i + 1], C[i + 2], C[i + 3]
        s0 = s1 = s2 = s3 = 0.0
        for j in range(columns.shape[0]):
            columns[j] += (p0[j] + p1[j]) + (p2[j] + p3[j])
            s0 += p0[j]
            s1 += p1[j]
            s2 += p2[j]
            s3 += p3[j]
            linear += (p0[j] * c0[j] + p1[j] * c1[j]) + (p2[j] * c2[j] + p3[j] * c3[j])
            size += (p0[j] * abs(c0[j]) + p1[j] * abs(c1[j])) + (p2[j] * abs(c2[j]) + p3[j] * abs(c3[j]))
        rows[i], rows[i + 1], rows[i + 2], rows[i + 3] = s0, s1, s2, s3
    for i in range(blocked, n):
        plan, cost, mass = P[i], C[i], 0.0
        for j in range(columns.shape[0]):
            columns[j] += plan[j]
            mass += plan[j]
            linear += plan[j] * cost[j]
            size += plan[j] * abs(cost[j])
        rows[i] = mass
    return linear, size


@compiled()
def write_plan(C: Any, scale: float, F: Any, G: Any, P: Any, rows: Any, columns: Any) -> tuple[float, float]:
    """P = e^{F + G - C/epsilon} with its marginals, some rows at a time; returns <C, P> and <|C|, P>.

    F and G hold the logarithms of R too: that P is complete when it is written saves a sixth.
    """
    set_all(columns, 0.0)
    linear = size = 0.0
    for i in range(0, C.shape[0], 8):
        s = slice(i, i + 8)
        fill(C[s], scale, F[s], G, LEAST, P[s])
        some_linear, some_size = _plan_sums(P[s], C[s], rows[s], columns)
        linear += some_linear
        size += some_size
    return linear, OVER if cut_off(rows.reshape(1, -1)) else size


@compiled()
def build_rows(C: Any, scale: float, added: Any, G0: Any, cut: float, F0: Any, K: Any) -> None:
    """F0 and K of some rows: made on the way of the first sweep, they cost no pass of their own."""
    long_row_minima(C, scale, added, F0)
    fill_single(C, scale, F0, G0, cut, K)


@lru_cache(maxsize=16)
def sweeper(kind: int, build: bool) -> Any:
    """The pass of a sweep over rows of a kind; with `build` it makes their kernel first."""
    step = STEPS[kind]

    @compiled(allocates=True)
    def sweep_rows(
        C: Any,
        scale: float,
        G0: Any,
        added: Any,
        cut: float,
        K: Any,
        w_b: Any,
        top_b: float,
        F0: Any,
        o_a: Any,
        r_a: Any,
        tau: float,
        low: float,
        high: float,
        omega: float,
        top_a: float,
        F: Any,
        soft: Any,
        w_a: Any,
        t: Any,
    ) -> None:
        """F, its weights in the column sums, and what these rows add to the column sums `t`.

        Eight rows at a time stay in the cache between the two uses, so that K is read from memory once a sweep.
        """
        n, m = K.shape
        part, sums = np.zeros(m, dtype=w_b.dtype), np.empty(4)
        set_all(t, 0.0)
        for first in range(0, n, 8):
            last = min(first + 8, n)
            if build:
                build_rows(C[first:last], scale, added, G0, cut, F0[first:last], K[first:last])
            for four in range(first, last, 4):
                end = min(four + 4, last)
                _row_sums(K[four:end], w_b, sums)
                for i in range(four, end):
                    soft[i] = F0[i] + o_a[i] - top_b - log(sums[i - four])
            part_soft, part_F = soft[first:last], F[first:last]
            step(tau, low, high, part_soft, omega, part_F, part_F)
            for i in range(first, last):
                w_a[i] = r_a[i] * exp(min(F[i] - F0[i] - top_a, _TOP))
            if last - first == 8:
                _add_eight_rows(K[first:last], w_a[first:last], part)
            else:
                add_columns(K[first:last], w_a[first:last], part)
            if last % _HEIGHT == 0:
                _add(part, t)
        _add(part, t)

    return sweep_rows
