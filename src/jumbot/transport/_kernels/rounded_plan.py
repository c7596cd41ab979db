"""A plan with both marginals exact, made from the kernel at potentials with exact row sums: compiled.

With P = R e^{F + G - C/epsilon}, P 1 = a and P' 1 = q, columns that have too much are scaled down to b, and what rows
and columns then lack is filled in by a rank-one term (Altschuler, Weed & Rigollet, 2017):

    Q = P y' + u l',    y = min(1, b/q),    u = P (1 - y)/sum l,    l = (b - q)_+

Then primal(Q) - dual(F, G) = epsilon KL(Q | P), whose terms are q (y log y - y + 1) for a column that is scaled down
and P ((1 + z) log(1 + z) - z) <= P z^2/2, z = u l/P, for an entry of the others.  All is in units of epsilon.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jumbot.transport._kernels.decorator import compiled
from jumbot.transport._kernels.gibbs import inner, set_all, total
from jumbot.transport._kernels.vectormath import NEAR, exp, greater, lesser, log, near_by_ratio

_SAMPLE = 16  # rows that an estimate looks at
_TINY = 1e-200  # a plan's entry below which its logarithm is taken from the potentials


@compiled()
def begin(
    C: Any, scale: float, lowest: float, F0: Any, K: Any, low: Any, w: Any, a: Any, s: Any, f: Any, t: Any
) -> bool:
    """K = e^{F0 - C/epsilon} around its row minima, and the first `plain_sweep`, while rows are in the cache.

    `low` holds the least entry of each row.  Returns False, with nothing of use, where an exponent is below `lowest`.
    """
    n = C.shape[0]
    set_all(t, 0.0)
    for i in range(n):
        least, most = _ends(C[i])
        F0[i] = least * scale
        if not (least - most) * scale >= lowest:
            return False
        low[i] = math.exp((least - most) * scale)
        _fill_row(C[i], scale, F0[i], K[i])
        if i % 4 == 3 or i == n - 1:
            block = i // 4 * 4
            _sweep_rows(K[block : i + 1], w, a[block : i + 1], s[block : i + 1], f[block : i + 1], t)
    return True


@compiled()
def _fill_row(row: Any, scale: float, shift: float, kernel: Any) -> None:
    for j in range(row.shape[0]):
        kernel[j] = exp(shift - row[j] * scale)


@compiled()
def plain_sweep(K: Any, w: Any, a: Any, s: Any, f: Any, t: Any) -> None:
    """s = K w, f = a/s and t = K' f."""
    set_all(t, 0.0)
    _sweep_rows(K, w, a, s, f, t)


@compiled(fastmath=True)
def _sweep_rows(K: Any, w: Any, a: Any, s: Any, f: Any, t: Any) -> None:
    """As `plain_sweep`, added to t: four rows at a time, which the cache holds in between."""
    n = K.shape[0]
    for i in range(0, n // 4 * 4, 4):
        k0, k1, k2, k3, s0, s1, s2, s3 = K[i], K[i + 1], K[i + 2], K[i + 3], 0.0, 0.0, 0.0, 0.0
        for j in range(w.shape[0]):
            s0 += k0[j] * w[j]
            s1 += k1[j] * w[j]
            s2 += k2[j] * w[j]
            s3 += k3[j] * w[j]
        s[i], s[i + 1], s[i + 2], s[i + 3] = s0, s1, s2, s3
        f0, f1 = a[i] / max(s0, 1e-290), a[i + 1] / max(s1, 1e-290)
        f2, f3 = a[i + 2] / max(s2, 1e-290), a[i + 3] / max(s3, 1e-290)
        f[i], f[i + 1], f[i + 2], f[i + 3] = f0, f1, f2, f3
        for j in range(t.shape[0]):
            t[j] += (f0 * k0[j] + f1 * k1[j]) + (f2 * k2[j] + f3 * k3[j])
    for i in range(n // 4 * 4, n):
        s[i] = inner(K[i], w)
        f[i] = a[i] / max(s[i], 1e-290)
        kernel, factor = K[i], f[i]
        for j in range(t.shape[0]):
            t[j] += factor * kernel[j]


@compiled()
def extremes(a: Any, s: Any) -> tuple[float, float]:
    """The least and the largest s of rows that have weight; below e^-650, a/s cannot be used."""
    low, high = 1e300, 0.0
    for i in range(a.shape[0]):
        far = 0.0 if a[i] > 0.0 else 1e300
        low, high = lesser(low, s[i] + far), greater(high, s[i] - far)
    return low, high


def reaches(costs: np.ndarray) -> np.ndarray:
    """The spread of the costs of each problem of a batch.

    >>> reaches(np.array([[[1.0, 3.0]], [[0.5, 0.5]]])).tolist()
    [2.0, 0.0]
    """
    out = np.empty(len(costs))
    _spreads(costs, out)
    return out


@compiled()
def _spreads(costs: Any, out: Any) -> None:
    for k in range(costs.shape[0]):
        low, high = 1e300, -1e300
        for i in range(costs.shape[1]):
            least, most = _ends(costs[k, i])
            low, high = min(low, least), max(high, most)
        out[k] = high - low


@compiled(fastmath=True)
def _ends(row: Any) -> tuple[float, float]:
    least, most = 1e300, -1e300
    for j in range(row.shape[0]):
        least, most = lesser(least, row[j]), greater(most, row[j])
    return least, most


@compiled()
def excess(
    b: Any, w: Any, t: Any, kept: Any, cut: Any, lack: Any, shares: Any, terms: Any
) -> tuple[float, float, float]:
    """What is done to the columns q = w t of P = diag(f) K diag(w): kept = w y, cut = w (1 - y), and what they lack.

    Returns how much they lack in all, the part of the gap that y takes, and the sum of the shares lack^2/w; `terms` is
    to work in.
    """
    for j in range(b.shape[0]):
        q = w[j] * t[j]
        d = max(q - b[j], 0.0) / max(q, 1e-300)
        kept[j], cut[j], lack[j] = w[j] * (1.0 - d), w[j] * d, max(b[j] - q, 0.0)
        terms[j] = q * (near_by_ratio(-d) if d < NEAR else (1.0 - d) * log(max(1.0 - d, 1e-300)) + d)
    part = total(terms)
    for j in range(b.shape[0]):
        shares[j] = lack[j] * lack[j] / max(w[j], 1e-290)
    return total(lack), part, total(shares)


@compiled()
def _fill_terms(
    kernel: Any, f: float, w: Any, u: float, lack: Any, row: Any, scale: float, A: float, B: Any, terms: Any
) -> float:
    """The sum over one row of (p + e) log(1 + e/p) - e, p = f kernel w and e = u lack.

    Where p is tiny its logarithm is A + B - C/epsilon.
    """
    for j in range(kernel.shape[0]):
        e, x = u * lack[j], f * kernel[j] * w[j]
        seen = x > _TINY
        L = log((x + e) / x if seen else max(e, 1e-300)) - (0.0 if seen else A + B[j] - row[j] * scale)
        terms[j] = max((x + e) * L - e, 0.0) if e > 0.0 else 0.0
    return total(terms)


@compiled(fastmath=True)
def _shared(kernel: Any, shares: Any) -> float:
    """The sum of shares/kernel."""
    found = 0.0
    for j in range(kernel.shape[0]):
        found += shares[j] / greater(kernel[j], 1e-290)
    return found


@compiled()
def _crude(f: float, low: float, u: float, squares: float) -> float:
    """A bound of what the filled entries of a row add to the gap: each of its entries of K is at least `low`."""
    least = f * low
    return min(0.5 * u * u * squares / max(least, 1e-290), 1e290) if least > 1e-290 else 1e290


@compiled()
def _sharp(kernel: Any, f: float, u: float, shares: Any) -> float:
    """A bound as well, from every entry: the sum of e^2/2p, at a quarter of the time of the logarithms."""
    return min(0.5 * u * u * _shared(kernel, shares) / f, 1e290) if f > 1e-290 else 1e290


@compiled()
def sampled(
    C: Any,
    scale: float,
    K: Any,
    f: Any,
    w: Any,
    low: Any,
    a: Any,
    cut: Any,
    lack: Any,
    shares: Any,
    lacking: float,
    squares: float,
    enough: float,
    A: Any,
    B: Any,
    turn: int,
    terms: Any,
) -> tuple[float, float]:
    """What the filled entries would add to the gap, and a bound of it, both estimated from some rows.

    Where the bound of a row is `enough` per mass, it is all that is looked at.
    """
    n, seen, gap, bound = C.shape[0], 0.0, 0.0, 0.0
    if lacking <= 0.0:
        return 0.0, 0.0
    count = min(_SAMPLE, n)
    for k in range(count):
        i = (k * n) // count + turn % max(n // count, 1)
        if a[i] > 0.0:
            seen += a[i]
            u = f[i] * inner(K[i], cut) / lacking
            most = _crude(f[i], low[i], u, squares)
            if most > enough * a[i]:
                most = _sharp(K[i], f[i], u, shares)
            bound += most
            if most > enough * a[i]:
                most = _fill_terms(K[i], f[i], w, u, lack, C[i], scale, A[i], B, terms)
            gap += most
    share = total(a) / max(seen, 1e-300)
    return gap * share, bound * share


@compiled()
def sampled_size(C: Any, K: Any, f: Any, w: Any, a: Any, turn: int) -> float:
    """<|C|, P>, estimated from some rows."""
    n, seen, size = C.shape[0], 0.0, 0.0
    count = min(_SAMPLE, n)
    for k in range(count):
        i = (k * n) // count + turn % max(n // count, 1)
        if a[i] > 0.0:
            seen += a[i]
            size += f[i] * _size(K[i], w, C[i])
    return size * total(a) / max(seen, 1e-300)


@compiled(fastmath=True)
def _size(kernel: Any, w: Any, row: Any) -> float:
    size = 0.0
    for j in range(w.shape[0]):
        size += kernel[j] * w[j] * abs(row[j])
    return size


@compiled()
def round_plan(
    C: Any,
    scale: float,
    K: Any,
    f: Any,
    w: Any,
    low: Any,
    a: Any,
    kept: Any,
    cut: Any,
    lack: Any,
    shares: Any,
    lacking: float,
    squares: float,
    negligible: float,
    bounded: bool,
    A: Any,
    B: Any,
    u: Any,
    rows: Any,
    columns: Any,
    terms: Any,
) -> tuple[float, float, float]:
    """K becomes Q; returns the gap of its filled entries in units of epsilon, <C, Q> and <|C|, Q>.

    Of what is `negligible` per mass a bound is enough: logarithms of all entries take as long as K.  `low` holds a
    lower bound of each row of K, or zero, and `bounded` says that a bound from every entry is worth its time.
    """
    gap, inverse = 0.0, 1.0 / lacking if lacking > 0.0 else 0.0
    linear = size = 0.0
    set_all(columns, 0.0)
    for i in range(C.shape[0]):
        u[i] = (f[i] * inner(K[i], cut) if f[i] > 0.0 else a[i]) * inverse  # no f: a row of which nothing is left
        if u[i] > 0.0:
            added = _crude(f[i], low[i], u[i], squares)
            if bounded and added > negligible * a[i]:
                added = _sharp(K[i], f[i], u[i], shares)
            if added > negligible * a[i]:
                added = _fill_terms(K[i], f[i], w, u[i], lack, C[i], scale, A[i], B, terms)
            gap += added
        rows[i], some_linear, some_size = _write(K[i], f[i], kept, u[i], lack, C[i], columns)
        linear += some_linear
        size += some_size
    return gap, linear, size


@compiled(fastmath=True)
def _write(p: Any, f: float, kept: Any, u: float, lack: Any, row: Any, columns: Any) -> tuple[float, float, float]:
    """p = f p kept + u lack; returns its mass, <C, p> and <|C|, p>.

    Four rows at a time are not vectorised: that they do not overlap would take too many comparisons.
    """
    mass = linear = size = 0.0
    for j in range(p.shape[0]):
        x = f * p[j] * kept[j] + u * lack[j]
        p[j] = x
        columns[j] += x
        mass += x
        linear += x * row[j]
        size += x * abs(row[j])
    return mass, linear, size
