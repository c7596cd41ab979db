"""Anderson mixing of the potentials (`policy.py` says where).

Over-relaxation is tuned to the slowest direction; mixing learns the few that share its rate at once: on the problems of
`benchmarks/` 8 sweeps instead of 24 (VisDA), 21 instead of 32 (Office-Home), 5 instead of 9 (partial), and on costs
without clusters about as many as before.  The best translation is part of the mixed map, because without it that one
direction fills the memory.

The combination of images whose residual is least is found by orthogonalising the differences of residuals, newest
first, which takes no linear system.  `torch_mixing.py` does the same for batches on a device, by matrix products.
"""

from __future__ import annotations

from typing import Any

from jumbot.transport.compiled.vectormath import compiled, exp
from jumbot.transport.entropic.policy import DEPTH

_RIDGE = 1e-8


@compiled()
def remember(
    x: Any, image: Any, shift: float, b: Any, tau: float, count: int, images: Any, residuals: Any, w: Any
) -> float:
    """Write the image of `x`, moved by `shift`, and its residual to row `count` of the rings.

    Returns the squared norm of the residual before the move.  The weights `w` are the marginals that the image asks
    for, so that tau/(2 kappa^2) times that norm is nearly the gap.
    """
    kept, residual = images[count % (DEPTH + 1)], residuals[count % (DEPTH + 1)]
    for j in range(x.shape[0]):
        kept[j] = image[j] - shift
        residual[j] = kept[j] - x[j]
        w[j] = b[j] * exp(min(-image[j] / tau, 300.0))  # its square is still a float
    norm = 0.0
    for j in range(x.shape[0]):
        norm += w[j] * (image[j] - x[j]) ** 2
    return norm


@compiled()
def mix(
    images: Any, residuals: Any, w: Any, count: int, known: int, slopes: Any, moves: Any, norms: Any, out: Any
) -> None:  # fmt: skip
    """out = the combination of the last `known` images, row `count` the newest, whose residual is least."""
    newest = count % (DEPTH + 1)
    image, residual = images[newest], residuals[newest]
    _subtract(image, 0.0, image, out)
    for i in range(min(known - 1, DEPTH)):
        row, slope, move = (count - 1 - i) % (DEPTH + 1), slopes[i], moves[i]
        _subtract(residual, 1.0, residuals[row], slope)
        _subtract(image, 1.0, images[row], move)
        ridge = _RIDGE * dot(w, slope, slope) + 1e-300
        for k in range(i):
            share = dot(w, slope, slopes[k]) / norms[k]
            _subtract(slope, share, slopes[k], slope)
            _subtract(move, share, moves[k], move)
        norms[i] = dot(w, slope, slope) + ridge
        _subtract(out, dot(w, residual, slope) / norms[i], move, out)


@compiled(fastmath=True, internal=True)
def dot(w: Any, x: Any, y: Any) -> float:
    total = 0.0
    for j in range(w.shape[0]):
        total += w[j] * x[j] * y[j]
    return total


@compiled(internal=True)
def _subtract(x: Any, share: float, y: Any, out: Any) -> None:
    for j in range(x.shape[0]):
        out[j] = x[j] - share * y[j]
