"""Passes over the blocks of the plan that are kept: sums of rows, least costs, marginals, products, mixtures.

One walk, `over_blocks`, goes through the strips; what is done with a row of a strip makes it a pass.  Row cells are
`(A, d, W)`, column cells `(B, d, V)`, and `met[first[a]:last[a]]` lists the column cells that row cell `a` meets.
F and G hold potentials over epsilon plus the logarithms of the reference weights; padding has the exponent `NOTHING`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jumbot.transport._kernels.decorator import compiled
from jumbot.transport._kernels.gibbs import inner
from jumbot.transport._kernels.vectormath import NEAR, exp, greater, lesser, log, near_by_log
from jumbot.transport._points.tile_math import (
    PRODUCT,
    ROOT,
    ROWS,
    WFR,
    add_up,
    costs,
    distances,
    entries_double,
    entries_single,
    slopes,
)

_HUGE = 1e200  # a cost of which the plan holds nothing
_BUFFERS = 3  # rows that a visit may write to
#: `wanted` of a walk through all strips.
EVERY = np.empty((0, 0), dtype=np.bool_)

#: A visit is part of the walk: a call for each row would hand over a hundred numbers.
visiting = compiled(forceinline=True)


def over_blocks(visit: Any) -> Any:
    """A pass: `visit(a, i, b, z, work, tiles, state)` for each row i of each kept block (a, b).

    z `(V,)` holds the distances of the row, as `tile_math.distances` makes them, and `work` is memory to write to.  The
    arguments of a pass are the row cells that it goes through; `tiles`, which is (x, norms of x, F, y, norms of y, G,
    first, last, met, wanted, kind, scale), with `wanted` `(A, W / 4)` the strips to look at, or `EVERY`; and `state`,
    the arrays that belong to the visit alone.  Sums are added to what they hold.
    """

    @compiled(allocates=True)
    def walk(cells: Any, tiles: Any, state: Any) -> None:
        x, _, _, y, _, _, first, last, met, wanted, kind, _ = tiles
        z, work = np.empty((ROWS, y.shape[2]), y.dtype), np.empty((_BUFFERS, y.shape[2]), y.dtype)
        for at in range(cells.shape[0]):
            a = cells[at]
            for k in range(first[a], last[a]):
                b = met[k]
                for i in range(0, x.shape[2], ROWS):
                    if wanted.shape[0] == 0 or wanted[a, i // ROWS]:
                        distances(x[a], i, y[b], kind == PRODUCT, z)
                        for r in range(ROWS):
                            visit(a, i + r, b, z[r], work, tiles, state)

    return walk


@visiting
def _add_single(a: int, i: int, b: int, z: Any, work: Any, tiles: Any, state: Any) -> None:
    _, _, F, _, _, G, _, _, _, _, kind, scale = tiles
    entries_single(kind, scale, G[b], F[a, i], z)
    state[0][a, i] += add_up(z)


@visiting
def _add_double(a: int, i: int, b: int, z: Any, work: Any, tiles: Any, state: Any) -> None:
    _, _, F, _, _, G, _, _, _, _, kind, scale = tiles
    entries_double(kind, scale, G[b], F[a, i], z)
    state[0][a, i] += add_up(z)


@compiled(fastmath=True)
def _least(z: Any, G: Any, least: float) -> float:
    for j in range(z.shape[0]):
        least = lesser(least, z[j] - G[j])
    return least


@visiting
def _keep_least(a: int, i: int, b: int, z: Any, work: Any, tiles: Any, state: Any) -> None:
    _, norm_x, _, _, norm_y, G, _, _, _, _, kind, scale = tiles
    costs(kind, scale, norm_x[a, i], norm_y[b], z)
    state[0][a, i] = _least(z, G[b], state[0][a, i])


@compiled()
def _exponentials(shift: float, G: Any, c: Any, p: Any) -> None:
    """p = e^(G + shift - c); c becomes zero where it is so large that nothing is there."""
    for j in range(c.shape[0]):
        x = G[j] + shift - c[j]
        p[j] = exp(lesser(x, 700.0)) if x > -700.0 else 0.0
        c[j] = c[j] if c[j] < _HUGE else 0.0


@visiting
def entries(a: int, i: int, b: int, z: Any, p: Any, tiles: Any) -> None:
    """p = the entries of the plan in row i of a block; z becomes their costs."""
    _, norm_x, F, _, norm_y, G, _, _, _, _, kind, scale = tiles
    costs(kind, scale, norm_x[a, i], norm_y[b], z)
    _exponentials(F[a, i], G[b], z, p)


@compiled(fastmath=True)
def _gather(p: Any, c: Any, columns: Any) -> tuple[float, float]:
    mass = linear = 0.0
    for j in range(p.shape[0]):
        columns[j] += p[j]
        mass += p[j]
        linear += p[j] * c[j]
    return mass, linear


@visiting
def _add_plan(a: int, i: int, b: int, z: Any, work: Any, tiles: Any, state: Any) -> None:
    rows, linear, columns = state
    entries(a, i, b, z, work[0], tiles)
    mass, paid = _gather(work[0], z, columns[b])
    rows[a, i] += mass
    linear[a, i] += paid


@visiting
def _add_products(a: int, i: int, b: int, z: Any, work: Any, tiles: Any, state: Any) -> None:
    by_slopes, v, out = state
    p, c = work[0], work[1]
    if by_slopes:
        for j in range(c.shape[0]):
            c[j] = z[j]
        slopes(tiles[10], tiles[11], c)
    entries(a, i, b, z, p, tiles)
    if by_slopes:
        for j in range(c.shape[0]):
            p[j] *= c[j]
    for e in range(v.shape[1]):
        out[a, i, e] += inner(p, v[b, e])


@compiled()
def _mixed(
    shift: float, G: Any, log_u: float, log_v: Any, log_alpha: float, log_beta: Any, c: Any, terms: Any, paid: Any
) -> None:
    """Terms of KL(Q | P) with Q = u P v + alpha beta', and of <C, Q>, from the exponents."""
    for j in range(c.shape[0]):
        cost = c[j]
        log_p = greater(G[j] + shift - cost, -1e5)
        one, two = log_p + log_u + log_v[j], greater(log_alpha + log_beta[j], -1e5)
        top, low = greater(one, two), lesser(one, two)
        log_q = top + log(1.0 + exp(greater(low - top, -700.0)))
        r = log_q - log_p
        q = exp(lesser(log_q, 700.0)) if log_q > -700.0 else 0.0
        p = exp(lesser(log_p, 700.0)) if log_p > -700.0 else 0.0
        terms[j] = p * near_by_log(r) if abs(r) < NEAR else greater(q * r - q + p, 0.0)
        paid[j] = q * cost if cost < _HUGE else 0.0


@visiting
def _add_mixture(a: int, i: int, b: int, z: Any, work: Any, tiles: Any, state: Any) -> None:
    _, norm_x, F, _, norm_y, G, _, _, _, _, kind, scale = tiles
    log_u, log_v, log_alpha, log_beta, out = state
    costs(kind, scale, norm_x[a, i], norm_y[b], z)
    _mixed(F[a, i], G[b], log_u[a, i], log_v[b], log_alpha[a, i], log_beta[b], z, work[0], work[1])
    out[a, 0] += add_up(work[0])
    out[a, 1] += add_up(work[1])


#: state (out,): out_i += sum_j 2^(F_i + G_j - C_ij), entries in float32, added up in float64.
sums_single = over_blocks(_add_single)
#: state (out,): out_i += sum_j e^(F_i + G_j - C_ij).
sums_double = over_blocks(_add_double)
#: state (out,): out_i becomes the least of itself and C_ij - G_j, in float64.
minima = over_blocks(_keep_least)
#: state (rows, linear, columns): the marginals of P = e^(F + G - C), and sum_j P_ij C_ij.
plan_sums = over_blocks(_add_plan)
#: state (by_slopes, v, out): out `(A, W, k)` += P v, v `(B, k, V)`; with `by_slopes`, each entry times dC/d(|x - y|^2).
products = over_blocks(_add_products)
#: state (log_u, log_v, log_alpha, log_beta, out): out[a] += KL(Q | P) and <C, Q>, Q = u P v + alpha beta'.
mixture = over_blocks(_add_mixture)


@compiled()
def box_cost(low: Any, high: Any, other_low: Any, other_high: Any, kind: int, scale: float, largest: bool) -> float:
    """The least (or largest) cost over epsilon between points of two boxes."""
    z = 0.0
    for e in range(low.shape[0]):
        apart = max(other_low[e] - high[e], low[e] - other_high[e])
        if largest:
            apart = max(other_high[e] - low[e], high[e] - other_low[e])
        z += max(apart, 0.0) ** 2
    z *= 1.0 + 1e-12 if largest else 1.0 - 1e-12
    if kind == ROOT:
        return np.sqrt(z)
    if kind == WFR:
        if z >= 2.4674011002723395:
            return 1e300
        return -2.0 * scale * np.log(np.cos(np.sqrt(z)))
    return z


@compiled()
def _log_bound(rows: Any, columns: Any, ground: Any, a: int, b: int) -> float:
    """log_a + log_b - least cost of one block: no entry times its weights is larger."""
    low, high, log_a = rows
    other_low, other_high, log_b = columns
    kind, scale = ground
    return log_a[a] + log_b[b] - box_cost(low[a], high[a], other_low[b], other_high[b], kind, scale, False)


@compiled(allocates=True)
def weigh_blocks(rows: Any, columns: Any, ground: Any, a: int, least: float, width: float, bins: Any) -> None:
    """Add the bounds of the blocks of row cell `a` to bins of their logarithm.

    `rows` and `columns` are the boxes of their cells and the logarithms of their masses; `ground` kind and scale.
    """
    for b in range(columns[2].shape[0]):
        e = _log_bound(rows, columns, ground, a, b)
        if e > -700.0:
            at = int(min(max((e - least) / width + 1.0, 0.0), bins.shape[0] - 1.0))
            bins[at] += exp(min(e, 600.0))


@compiled(allocates=True)
def keep_blocks(rows: Any, columns: Any, ground: Any, a: int, threshold: float, kept: Any) -> tuple[int, float]:
    """Write the blocks of row cell `a` whose bound is above the threshold, and the best one in any case.

    Returns their number and the sum of the bounds of the others.
    """
    count, dropped, best, at = 0, 0.0, -1e300, 0
    for b in range(columns[2].shape[0]):
        e = _log_bound(rows, columns, ground, a, b)
        if e > best:
            best, at = e, b
        if e > threshold:
            kept[count] = b
            count += 1
        elif e > -700.0:
            dropped += exp(min(e, 600.0))
        else:
            dropped += 1e-304
    if count == 0:
        kept[0], count = at, 1
    return count, dropped


@compiled(allocates=True)
def fill_left_out(rows: Any, columns: Any, lists: Any, ground: Any, a: int, out: Any) -> None:
    """Of alpha beta' in the blocks of row cell `a` that are left out: mass, a bound on <C, .>, and sum e log(e/R..).

    `rows` are the boxes of cells, their alpha, and its sums times logarithms; `lists` the blocks that are kept.
    """
    low, high, alpha, log_a = rows
    other_low, other_high, beta, log_b = columns
    first, last, met = lists
    kind, scale = ground
    absent = np.ones(beta.shape[0], dtype=np.uint8)
    for k in range(first[a], last[a]):
        absent[met[k]] = 0
    for b in range(beta.shape[0]):
        mass = alpha[a] * beta[b]
        if absent[b] and mass > 0.0:
            paid = mass * box_cost(low[a], high[a], other_low[b], other_high[b], kind, scale, True)
            out[0] += mass
            out[1] += paid
            out[2] += paid + log_a[a] * beta[b] + alpha[a] * log_b[b]
