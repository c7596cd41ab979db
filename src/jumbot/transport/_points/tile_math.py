"""Distances and exponentials of a strip: four rows of points against the columns of one cell, in the L1 cache.

Coordinates are scaled so that z = |x - y|^2 is the cost over epsilon, or its square; those of a cell are stored one
coordinate after the other.  A strip is first distances, then exponentials, then sums: each loop is vectorised, and
the buffer between them never leaves the cache.  float32 counts in powers of two, float64 in powers of e.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from jumbot.errors import ArgumentError
from jumbot.transport._kernels.decorator import compiled
from jumbot.transport._kernels.vectormath import exp, greater, lesser, log

#: What the cost is: |x - y|^2, |x - y|, or -log cos^2 |x - y|; or |x - y|^2 by products, where coordinates are many.
SQUARED, ROOT, WFR, PRODUCT = range(4)
#: An exponent at which e^x is as good as zero in either precision.
NOTHING = -1e30
ROWS = 4
_LIMIT = math.pi**2 / 4 * (1 - 1e-12)  # of the squared distance, from which on -log cos^2 is infinite
_FAR = 1e300


@intrinsic
def _nearest(typing: Any, x: Any) -> Any:
    """The nearest whole number, by one instruction."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = arguments[0].type
        called = builder.module.declare_intrinsic("llvm.rint", [kind], ir.FunctionType(kind, [kind]))
        return builder.call(called, arguments)

    return x(x), build


@intrinsic
def _times_two_to(typing: Any, p: Any, k: Any) -> Any:
    """The float32 `p` times two to the whole number `k`."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        p, k = arguments
        bits = ir.IntType(32)
        exponent = builder.shl(builder.fptosi(k, bits), bits(23))
        return builder.bitcast(builder.add(builder.bitcast(p, bits), exponent), ir.FloatType())

    return types.float32(types.float32, types.float32), build


_C0, _C1, _C2, _C3, _C4, _C5, _C6 = (np.float32(math.log(2) ** k / math.factorial(k)) for k in range(7))
_LEAST, _MOST = np.float32(-126.0), np.float32(127.0)


@compiled()
def exp2_single(x: Any) -> Any:
    """2^x in float32 to two units in the last place; below 2^-126 and above 2^127 the bound itself."""
    x = lesser(greater(x, _LEAST), _MOST)
    k: Any = _nearest(x)  # type: ignore[call-arg]
    r = x - k
    p = _C6 * r + _C5
    p = p * r + _C4
    p = p * r + _C3
    p = p * r + _C2
    p = p * r + _C1
    p = p * r + _C0
    return _times_two_to(p, k)


# cos(sqrt(z)) by its series in z, to the last digit up to z = (pi/2)^2
_K = tuple((-1) ** k / math.factorial(2 * k) for k in range(12))
_K0, _K1, _K2, _K3, _K4, _K5, _K6, _K7, _K8, _K9, _K10, _K11 = _K


@compiled()
def wfr_cost(z: float) -> float:
    """-log cos^2 of the root of z, 1e300 where it is infinite."""
    q = lesser(z, _LIMIT)
    c = _K11 * q + _K10
    c = c * q + _K9
    c = c * q + _K8
    c = c * q + _K7
    c = c * q + _K6
    c = c * q + _K5
    c = c * q + _K4
    c = c * q + _K3
    c = c * q + _K2
    c = c * q + _K1
    c = c * q + _K0
    cost = -2.0 * log(greater(c, 1e-15))
    return cost if z < _LIMIT else _FAR


@compiled(fastmath=True)
def add_up(e: Any) -> Any:
    total = e.dtype.type(0.0)
    for j in range(e.shape[0]):
        total += e[j]
    return total


@compiled()
def _one(x: Any, i: int, columns: Any, z: Any) -> None:
    u0, c0 = x[0, i], columns[0]
    for j in range(z.shape[0]):
        z[j] = (u0 - c0[j]) * (u0 - c0[j])


@compiled()
def _two(x: Any, i: int, columns: Any, z: Any) -> None:
    u0, u1, c0, c1 = x[0, i], x[1, i], columns[0], columns[1]
    for j in range(z.shape[0]):
        z[j] = (u0 - c0[j]) * (u0 - c0[j]) + (u1 - c1[j]) * (u1 - c1[j])


@compiled()
def _three(x: Any, i: int, columns: Any, z: Any) -> None:
    u0, u1, u2, c0, c1, c2 = x[0, i], x[1, i], x[2, i], columns[0], columns[1], columns[2]
    for j in range(z.shape[0]):
        z[j] = (u0 - c0[j]) * (u0 - c0[j]) + ((u1 - c1[j]) * (u1 - c1[j]) + (u2 - c2[j]) * (u2 - c2[j]))


@compiled()
def _add_four(x: Any, i: int, columns: Any, k: int, one: Any, two: Any) -> None:
    """Four coordinates of two rows."""
    x0, x1, x2, x3 = x[k, i], x[k + 1, i], x[k + 2, i], x[k + 3, i]
    y0, y1, y2, y3 = x[k, i + 1], x[k + 1, i + 1], x[k + 2, i + 1], x[k + 3, i + 1]
    c0, c1, c2, c3 = columns[k], columns[k + 1], columns[k + 2], columns[k + 3]
    for j in range(one.shape[0]):
        d0, d1, d2, d3 = x0 - c0[j], x1 - c1[j], x2 - c2[j], x3 - c3[j]
        one[j] = d3 * d3 + (d2 * d2 + (d1 * d1 + (d0 * d0 + one[j])))
        d0, d1, d2, d3 = y0 - c0[j], y1 - c1[j], y2 - c2[j], y3 - c3[j]
        two[j] = d3 * d3 + (d2 * d2 + (d1 * d1 + (d0 * d0 + two[j])))


@compiled()
def _doubled(x: Any, k: int, i: int) -> tuple[Any, Any, Any, Any]:
    """Twice four coordinates of a point."""
    return x[k, i] + x[k, i], x[k + 1, i] + x[k + 1, i], x[k + 2, i] + x[k + 2, i], x[k + 3, i] + x[k + 3, i]


@compiled()
def _add_products(x: Any, i: int, k: int, columns: Any, z: Any) -> None:
    """z -= 2 <x, c> of four coordinates of four rows."""
    z0, z1, z2, z3 = z[0], z[1], z[2], z[3]
    a0, a1, a2, a3 = _doubled(x, k, i)
    b0, b1, b2, b3 = _doubled(x, k, i + 1)
    d0, d1, d2, d3 = _doubled(x, k, i + 2)
    e0, e1, e2, e3 = _doubled(x, k, i + 3)
    c0, c1, c2, c3 = columns[k], columns[k + 1], columns[k + 2], columns[k + 3]
    for j in range(z0.shape[0]):
        p, q, r, s = c0[j], c1[j], c2[j], c3[j]
        z0[j] -= a3 * s + (a2 * r + (a1 * q + a0 * p))
        z1[j] -= b3 * s + (b2 * r + (b1 * q + b0 * p))
        z2[j] -= d3 * s + (d2 * r + (d1 * q + d0 * p))
        z3[j] -= e3 * s + (e2 * r + (e1 * q + e0 * p))


@compiled()
def _clear(z: Any) -> None:
    for i in range(z.shape[0]):
        row = z[i]
        for j in range(row.shape[0]):
            row[j] = 0.0


@compiled()
def distances(x: Any, i: int, columns: Any, products: bool, z: Any) -> None:
    """z `(4, columns)` = |x - y|^2, or -2 <x, y>, of the points i to i + 3 of a cell `(d, points)` and all of another.

    Beyond three, coordinates come in fours.
    """
    d = x.shape[0]
    if d == 1:
        for r in range(ROWS):
            _one(x, i + r, columns, z[r])
    elif d == 2:
        for r in range(ROWS):
            _two(x, i + r, columns, z[r])
    elif d == 3:
        for r in range(ROWS):
            _three(x, i + r, columns, z[r])
    else:
        _clear(z)
        for k in range(0, d, 4):
            if products:
                _add_products(x, i, k, columns, z)
            else:
                _add_four(x, i, columns, k, z[0], z[1])
                _add_four(x, i + 2, columns, k, z[2], z[3])


@compiled()
def entries_single(kind: int, scale: float, G: Any, shift: Any, z: Any) -> None:
    """z becomes 2^(G + shift - cost)."""
    if kind == ROOT:
        for j in range(z.shape[0]):
            z[j] = exp2_single(G[j] + shift - np.sqrt(z[j]))
    else:
        for j in range(z.shape[0]):
            z[j] = exp2_single(G[j] + shift - z[j])


@compiled()
def entries_double(kind: int, scale: float, G: Any, shift: float, z: Any) -> None:
    """z becomes e^(G + shift - cost)."""
    if kind == ROOT:
        for j in range(z.shape[0]):
            z[j] = exp(lesser(G[j] + shift - np.sqrt(z[j]), 700.0))
    elif kind == WFR:
        for j in range(z.shape[0]):
            z[j] = exp(lesser(G[j] + shift - scale * wfr_cost(z[j]), 700.0))
    else:
        for j in range(z.shape[0]):
            z[j] = exp(lesser(G[j] + shift - z[j], 700.0))


@compiled()
def costs(kind: int, scale: float, norm: float, norms: Any, z: Any) -> None:
    """z becomes the cost over epsilon; `norm` and `norms` are what products leave out."""
    if kind == ROOT:
        for j in range(z.shape[0]):
            z[j] = np.sqrt(z[j])
    elif kind == WFR:
        for j in range(z.shape[0]):
            z[j] = scale * wfr_cost(z[j])
    elif kind == PRODUCT:
        for j in range(z.shape[0]):
            z[j] = greater(z[j] + norm + norms[j], 0.0)


@compiled()
def slopes(kind: int, scale: float, z: Any) -> None:
    """z becomes dC/dz, C the cost over epsilon; 0 at distance zero, where the root has none."""
    if kind == ROOT:
        for j in range(z.shape[0]):
            z[j] = 0.5 / np.sqrt(z[j]) if z[j] > 0.0 else 0.0
    elif kind == WFR:
        for j in range(z.shape[0]):
            d = np.sqrt(z[j])
            z[j] = scale * (np.tan(d) / d if d > 0.0 else 1.0) if z[j] < _LIMIT else 0.0
    else:
        for j in range(z.shape[0]):
            z[j] = 1.0


#: Up to this many coordinates differences are summed, which loses no digits.
FEW = 8
_LARGEST = 1e75  # of a scaled coordinate: its fourth power is a float


@dataclass(frozen=True)
class Ground:
    """What one named cost needs: C / epsilon is z, its root, or `scale` times -log cos^2 of it, z = |x - y|^2."""

    name: str
    kind: int
    scale: float
    factor: float  # of the coordinates

    @property
    def base(self) -> float:
        """What scaled coordinates are multiplied by where exponents are powers of two."""
        return 1 / math.log(2) if self.kind == ROOT else math.sqrt(1 / math.log(2))

    @property
    def single(self) -> bool:
        """Whether strips in float32 know it."""
        return self.kind != WFR


def ground_of(name: str, epsilon: float, coordinates: int) -> Ground:
    if name in ("sqeuclidean", "cosine"):
        kind = SQUARED if coordinates <= FEW else PRODUCT
        return Ground(name, kind, 1.0, math.sqrt((0.5 if name == "cosine" else 1.0) / epsilon))
    if name == "euclidean":
        return Ground(name, ROOT, 1.0, 1 / epsilon)
    return Ground(name, WFR, 1 / epsilon, 1.0)


def scaled(ground: Ground, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both clouds in float64 around a common centre, in the unit of the strips; directions for the cosine."""
    x, y = x.astype(np.float64), y.astype(np.float64)
    if ground.name == "cosine":
        x, y = x / norms("x", x), y / norms("y", y)
    else:
        centre = (x.mean(0) + y.mean(0)) / 2
        for points in (x, y):  # copies of what was given
            points -= centre
    for points in (x, y):
        points *= ground.factor
    if not max(np.abs(x).max(), np.abs(y).max()) < _LARGEST:
        raise ArgumentError(
            "epsilon: too small relative to the distances between points; raise it, or rescale the points."
        )
    return x, y


def norms(name: str, x: np.ndarray) -> np.ndarray:
    """The lengths of the points `(n, 1)`, none of them zero."""
    length = np.sqrt((x * x).sum(1, keepdims=True))
    if not (length > 0).all():
        raise ArgumentError(f"{name}: point {int(np.argmin(length))} is zero and has no direction for the cosine cost.")
    return length
