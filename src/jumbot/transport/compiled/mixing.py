"""Anderson mixing of the potentials, for the compiled sweeps.

The sweep of a KL problem contracts by kappa_a kappa_b in the directions that move a cluster of rows against its
columns, and by much more in others.  Over-relaxation is tuned to the slowest direction; mixing learns the few that
share its rate at once: on the problems of `benchmarks/` 8 sweeps instead of 24 (VisDA), 21 instead of 32
(Office-Home), 5 instead of 9 (partial), and on costs without clusters about as many as before.  The best translation
is part of the mixed map, because without it that one direction fills the memory.  Where tau/epsilon is large there are
many slow directions, and over-relaxation wins.
"""

from __future__ import annotations

from typing import Any

from jumbot.transport.compiled.vectormath import compiled, exp

#: past images kept beside the newest
DEPTH = 5
#: sweeps at most; growths of the squared residual that count, and how many of them end it
SWEEPS = 30
GROWTH = 4.0
STRIKES = 3
#: tau/epsilon above which over-relaxation needs fewer sweeps
LARGEST_TAU = 100.0
_RIDGE = 1e-8


@compiled()
def remember(
    x: Any, image: Any, shift: float, b: Any, tau: float, count: int, images: Any, residuals: Any, w: Any
) -> float:
    """Write the image of `x`, moved by `shift`, and its residual to row `count` of the rings.

    Returns the squared norm of the residual before the move.  The weights `w` are the marginals that the image asks
    for, so that tau/(2 kappa^2) times that norm is nearly the gap.
    """
    row = count % (DEPTH + 1)
    norm = 0.0
    for j in range(x.shape[0]):
        images[row, j] = image[j] - shift
        residuals[row, j] = image[j] - shift - x[j]
        w[j] = b[j] * exp(min(-image[j] / tau, 300.0))  # its square is still a float
    for j in range(x.shape[0]):
        norm += w[j] * (image[j] - x[j]) ** 2
    return norm


@compiled()
def mix(images: Any, residuals: Any, w: Any, count: int, known: int, normal: Any, share: Any, out: Any) -> None:
    """out = the combination of the last `known` images, row `count` the newest, whose residual is least."""
    newest = count % (DEPTH + 1)
    unknowns = min(known - 1, DEPTH)
    norm = _dot(w, residuals[newest], residuals[newest])
    for i in range(unknowns):
        row = (count - 1 - i) % (DEPTH + 1)
        for k in range(i + 1):
            other = (count - 1 - k) % (DEPTH + 1)
            normal[i, k] = normal[k, i] = _between(w, residuals[newest], residuals[row], residuals[other])
        share[i] = norm - _dot(w, residuals[newest], residuals[row])
    _solve(normal, share, unknowns)
    for j in range(w.shape[0]):
        out[j] = images[newest, j]
    for i in range(unknowns):
        row = (count - 1 - i) % (DEPTH + 1)
        for j in range(w.shape[0]):
            out[j] -= share[i] * (images[newest, j] - images[row, j])


@compiled(fastmath=True, internal=True)
def _dot(w: Any, x: Any, y: Any) -> float:
    total = 0.0
    for j in range(w.shape[0]):
        total += w[j] * x[j] * y[j]
    return total


@compiled(fastmath=True, internal=True)
def _between(w: Any, newest: Any, x: Any, y: Any) -> float:
    total = 0.0
    for j in range(w.shape[0]):
        total += w[j] * (newest[j] - x[j]) * (newest[j] - y[j])
    return total


@compiled(internal=True)
def _solve(normal: Any, share: Any, n: int) -> None:
    """Normal equations with a small ridge, in place; they are positive definite, so no pivots."""
    for k in range(n):
        normal[k, k] += _RIDGE * normal[k, k] + 1e-300
    for k in range(n):
        for i in range(k + 1, n):
            factor = normal[i, k] / normal[k, k]
            for j in range(k, n):
                normal[i, j] -= factor * normal[k, j]
            share[i] -= factor * share[k]
    for k in range(n - 1, -1, -1):
        for j in range(k + 1, n):
            share[k] -= normal[k, j] * share[j]
        share[k] /= normal[k, k]
