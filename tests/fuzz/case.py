"""A random call of `jumbot.solve`: its arguments as a user would hold them, and the problems that they pose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from . import draw
from .draw import Generator, chance
from .entropies import Array
from .problem import Problem


@dataclass(frozen=True)
class Case:
    """`arguments` for the call; `problems`, one for each of the flattened batch; `wild` where scales are far apart."""

    arguments: dict[str, Any]
    problems: list[Problem]
    batch: tuple[int, ...]
    dtype: type
    library: str
    wild: bool

    @property
    def shape(self) -> tuple[int, ...]:
        return self.arguments["cost"].shape

    @property
    def label(self) -> str:
        p = self.problems[0]
        shape, tau = "x".join(map(str, (*self.batch, *p.cost.shape))), ", ".join(f"{t:.3g}" for t in p.taus)
        words = [shape, self.library, self.dtype.__name__, f"epsilon={p.epsilon:.3g} tau=({tau})", p.divergence]
        words += [p.reference, *([] if p.mass is None else [f"mass={p.mass:.3g}"])]
        words += [f"{k}={self.arguments[k]:g}" for k in ("tol", "max_iterations") if k in self.arguments]
        words += [word for word, present in (("init", "init" in self.arguments), ("wild", self.wild)) if present]
        return " ".join(words)


def random_case(rng: Generator, shape: tuple[int, int] | None = None, small: bool = False) -> Case:
    """Any call of the contract; `small` keeps to a single problem of a few points in float64."""
    n, m = shape or (draw.sizes(rng) if not small else tuple(int(k) for k in rng.integers(1, 7, size=2)))
    batch = () if small or n * m > 1 << 15 else _batch(rng, n * m)
    dtype: type = np.float64 if small or chance(rng, 0.7) else np.float32
    wild = not small and chance(rng, 0.15)
    given = draw.settings(rng, wild, exact=chance(rng, 0.2))
    unit = draw.power_of_ten(rng, -12, 12) if chance(rng, 0.3) else 1.0
    cost = (draw.cost(rng, (*batch, n, m)) * unit).astype(dtype)
    mass_a, mass_b = draw.masses(rng, given, wild)
    zeros = chance(rng, 0.2)
    a, b = (
        _weights(rng, batch, size, mass, zeros, dtype)
        for size, mass in ((n, mass_a), (m, mass_b if mass_b != 1.0 else 1.0))
    )
    if draw.constrained(given) and (a is None) != (b is None):
        a = b = None
    given["epsilon"] *= unit
    if "tau" in given:
        tau = given["tau"]
        given["tau"] = tuple(t * unit for t in tau) if isinstance(tau, tuple) else tau * unit
    if "mass" in given:
        least = min(1.0 if w is None else float(w.astype(np.float64).sum(-1).min()) for w in (a, b))
        given["mass"] *= least
    problems = _problems(cost, a, b, given)
    if not draw.constrained(given) and chance(rng, 0.25):
        cost = draw.block(rng, cost, problems).astype(dtype)
        problems = _problems(cost, a, b, given)
    if chance(rng, 0.15):
        given["tol"] = float(rng.choice([1e-2, 1e-4, 1e-9, 1e-12]))
    if chance(rng, 0.04):
        given["max_iterations"] = int(rng.integers(1, 6))
    library = str(rng.choice(["numpy", "torch"]))
    held = {name: hold(rng, x, library) for name, x in (("cost", cost), ("a", a), ("b", b)) if x is not None}
    return Case(held | given, problems, batch, dtype, library, wild)


def _batch(rng: Generator, entries: int) -> tuple[int, ...]:
    kind = rng.choice(["single", "one", "few", "grid", "many"], p=[0.6, 0.05, 0.2, 0.05, 0.1])
    if kind == "many":  # also across the border from which problems are shared among threads
        return (int(min(rng.choice([17, 64]), max(1, (1 << 17) // entries))),)
    return {"single": (), "one": (1,), "few": (int(rng.integers(2, 5)),), "grid": (2, 2)}[str(kind)]


def _weights(rng: Generator, batch: tuple[int, ...], size: int, mass: float, zeros: bool, dtype: type) -> Array | None:
    if chance(rng, 0.2):
        return None
    shape = (*batch, size) if chance(rng, 0.5) else (size,)
    return (mass * draw.weights(rng, shape, zeros)).astype(dtype)


def _problems(cost: Array, a: Array | None, b: Array | None, given: dict[str, Any]) -> list[Problem]:
    *batch, n, m = cost.shape
    flat = cost.astype(np.float64).reshape(-1, n, m)

    def spread(w: Array | None, size: int) -> Array:
        w = np.full(size, 1 / size) if w is None else w.astype(np.float64)
        return np.broadcast_to(w, (*batch, size)).reshape(-1, size)

    rows, columns = spread(a, n), spread(b, m)
    named = {k: given[k] for k in ("epsilon", "tau", "divergence", "reference", "mass") if k in given}
    return [Problem(c, rows[k], columns[k], **named) for k, c in enumerate(flat)]


def hold(rng: Generator, x: Array, library: str) -> Any:
    """The same numbers in some layout of memory: reversed, transposed, strided, read-only, asking for gradients."""
    kind = rng.choice(["plain", "transposed", "strided", "marked"], p=[0.6, 0.15, 0.15, 0.1])
    if kind == "transposed" and x.ndim > 1:
        x = np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)
    elif kind == "strided":
        wide = np.full((*x.shape[:-1], 2 * x.shape[-1]), np.nan, x.dtype)
        wide[..., ::2] = x
        x = wide[..., ::2]
    if library == "numpy":
        if kind == "marked":
            x = x.copy()
            x.flags.writeable = False
        return x[..., ::-1].copy()[..., ::-1] if kind == "transposed" and x.ndim == 1 else x
    tensor = torch.from_numpy(x)
    return tensor.requires_grad_() if kind == "marked" else tensor
