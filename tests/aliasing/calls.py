"""Public calls as functions of a few arrays, and every array that they return."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch

import jumbot

Array = np.ndarray
SCALARS = ("value", "linear", "dual", "gap", "relative_gap", "mass")


@dataclass(frozen=True)
class Call:
    """`make(rng)` draws the arrays, `run(*arrays)` returns a dict of what came back; `torch` hands it tensors."""

    make: Callable[[np.random.Generator], tuple[Array, ...]]
    run: Callable[..., dict[str, Any]]
    torch: bool = False
    large: bool = False

    def arrays(self, seed: int) -> tuple[Any, ...]:
        drawn = self.make(np.random.default_rng(seed))
        return tuple(map(torch.from_numpy, drawn)) if self.torch else drawn

    def __call__(self, seed: int) -> dict[str, Any]:
        return self.run(*self.arrays(seed))


def leaves(name: str, x: Any) -> Iterator[tuple[str, Any]]:
    """Every array and tensor within a result, with its name."""
    if isinstance(x, dict):
        x = x.items()
    elif isinstance(x, tuple | list):
        x = enumerate(x)
    elif isinstance(x, np.ndarray | torch.Tensor):
        yield name, x
        return
    else:
        raise TypeError(f"{name}: a {type(x).__name__} is no array")
    for key, value in x:
        yield from leaves(f"{name}.{key}", value)


def as_array(x: Any) -> Array:
    """A copy in numpy."""
    return np.array(x.detach().numpy() if isinstance(x, torch.Tensor) else x)


def copied(result: dict[str, Any]) -> dict[str, Array]:
    return {name: as_array(x) for name, x in leaves("", result)}


def changes(before: dict[str, Array], result: dict[str, Any]) -> list[str]:
    """The names of what is no longer, or not, as it was."""
    now = copied(result)
    assert now.keys() == before.keys()
    return [name for name, x in before.items() if not _same(x, now[name])]


def _same(x: Array, y: Array) -> bool:
    return np.array_equal(x, y, equal_nan=x.dtype.kind == "f")


def _problem(shape: tuple[int, ...], rng: np.random.Generator) -> tuple[Array, Array, Array]:
    *batch, n, m = shape
    a, b = (rng.uniform(0.5, 1.5, size=(*batch, k)) for k in (n, m))
    return rng.random(shape), a / a.sum(-1, keepdims=True), b / b.sum(-1, keepdims=True)


def _blocked(rng: np.random.Generator) -> tuple[Array, Array, Array]:
    cost, a, b = _problem((8, 7), rng)
    cost[0], cost[3, 2], a[4] = np.inf, np.inf, 0
    return cost, a, b


def _clouds(n: int, m: int, rng: np.random.Generator) -> tuple[Array, ...]:
    _, a, b = _problem((n, m), rng)
    return rng.normal(size=(n, 2)), rng.normal(size=(m, 2)) + 0.5, a, b


def _solve(cost: Any, a: Any, b: Any, **settings: Any) -> dict[str, Any]:
    """All that a solution holds; with tensors also the gradients of its value."""
    inputs = (cost, a, b)
    if isinstance(cost, torch.Tensor):
        inputs = tuple(x if x.requires_grad else x.detach().requires_grad_() for x in inputs)
    solution = jumbot.solve(*inputs, **settings)
    names = ("plan", "potentials", "marginals", *SCALARS)
    out = {name: getattr(solution, name) for name in names}
    out |= {"sample": solution.sample(9, np.random.default_rng(0))}
    if cost.ndim > 2:
        out |= {"iterations": solution.iterations, "converged": solution.converged}
    if isinstance(cost, torch.Tensor):
        out["gradients"] = torch.autograd.grad(solution.value.sum(), inputs, retain_graph=True)
        out["linear gradient"] = torch.autograd.grad(solution.linear.sum(), inputs[0])
    return out


def _warm(cost: Any, a: Any, b: Any) -> dict[str, Any]:
    first = jumbot.solve(cost, a, b, epsilon=0.2, tau=1.0)
    second = jumbot.solve(cost * 1.1, a, b, epsilon=0.1, tau=1.0, init=first)
    potentials = first.potentials
    third = jumbot.solve(cost * 1.2, a, b, epsilon=0.1, tau=1.0, init=potentials)
    return {"first": (first.plan, potentials), "second": second.plan, "third": third.plan}


def _divergence(x: Any, y: Any, a: Any, b: Any, **settings: Any) -> dict[str, Any]:
    if not isinstance(x, torch.Tensor):
        return {"value": np.asarray(jumbot.sinkhorn_divergence(x, y, a, b, **settings))}
    inputs = tuple(u if u.requires_grad else u.detach().requires_grad_() for u in (x, y, a, b))
    value = jumbot.sinkhorn_divergence(*inputs, **settings)
    return {"value": value, "gradients": torch.autograd.grad(value, inputs)}


def _estimate(x: Any, y: Any, a: Any, b: Any, **settings: Any) -> dict[str, Any]:
    found = jumbot.estimate(x, y, a, b, m=6, k=7, epsilon=0.3, plan=True, seed=3, **settings)
    plan, matrix = found.plan, found.plan.to_scipy()
    return {
        "values": found.values,
        "matrix": (matrix.data, matrix.indices, matrix.indptr),
        "dense": plan.to_dense(),
        "marginals": plan.marginals,
        "map": plan.barycentric_map(y, x),
    }


def _flow(x: Any, y: Any, a: Any, b: Any, **settings: Any) -> dict[str, Any]:
    seen: list[Any] = []
    flow = jumbot.gradient_flow(
        x,
        y,
        m=5,
        k=2,
        steps=3,
        learning_rate=0.05,
        epsilon=0.2,
        snapshots=[0, 1, 3],
        seed=2,
        callback=lambda step, points, loss: seen.append(points),
        **settings,
    )
    out = {name: getattr(flow, name) for name in ("steps", "snapshots", "losses", "points", "target", "times")}
    return out | {"seen": seen}


def _couple(x: Any, y: Any, a: Any, b: Any, **settings: Any) -> dict[str, Any]:
    return {"pairs": jumbot.couple(x, y, seed=1, return_index=True, **settings)}


def _joint(x: Any, y: Any, a: Any, b: Any, **settings: Any) -> dict[str, Any]:
    z_s, z_t = (u if u.requires_grad else u.detach().requires_grad_() for u in (x, y))
    labels_s, labels_t = torch.arange(len(x)) % 3, torch.arange(len(y)) % 3
    logits = torch.cat([z_t, z_t.sum(-1, keepdim=True)], -1)
    loss = jumbot.JointTransportLoss(0.1, 0.1, tau=1.0, epsilon=0.1, scale="auto", **settings)
    out = loss(z_s, labels_s, z_t, logits, labels_t)
    results = {name: getattr(out, name) for name in ("loss", "value", "plan", "mass", "wrong_mass")}
    return results | {"gradients": torch.autograd.grad(out.loss, (z_s, z_t))}


@lru_cache(maxsize=1)
def _trained() -> tuple[Any, Any]:
    """A model and a classifier of a few steps, the same in every process."""
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    x = rng.normal(size=(60, 4)) + 3 * np.eye(4)[y]
    model = jumbot.adapt(
        (x, y), x + 0.5, steps=3, seed=0, standardise="none", device="cpu", method="jumbot", judge=False
    )
    fitted = jumbot.DomainAdaptationClassifier(steps=3, random_state=0).fit(x, y, X_target=x + 0.5)
    return model, fitted


def _predict(x: Array) -> dict[str, Any]:
    model, fitted = _trained()
    out = {f"model.{name}": getattr(model, name)(x) for name in ("predict", "predict_proba", "transform", "outputs")}
    names = ("predict", "predict_proba", "transform", "decision_function")
    return out | {f"classifier.{name}": getattr(fitted, name)(x) for name in names}


SMALL: dict[str, dict[str, Any]] = {
    "kl": {"epsilon": 0.1, "tau": 1.0},
    "ones": {"epsilon": 0.1, "tau": 1.0, "reference": "ones"},
    "balanced": {"epsilon": 0.1},
    "one side": {"epsilon": 0.1, "tau": (1.0, math.inf), "divergence": "chi2"},
    "tv": {"epsilon": 0.1, "tau": 0.3, "divergence": "tv"},
    "range": {"epsilon": 0.1, "divergence": "range(0.5,2)"},
    "partial": {"epsilon": 0.1, "mass": 0.5},
    "exact balanced": {"epsilon": 0.0},
    "exact kl": {"epsilon": 0.0, "tau": 1.0},
    "exact tv": {"epsilon": 0.0, "tau": 0.3, "divergence": "tv"},
    "exact partial": {"epsilon": 0.0, "mass": 0.5},
}
LARGE: dict[str, dict[str, Any]] = {
    "kl": {"epsilon": 0.1, "tau": 1.0},
    "balanced": {"epsilon": 0.1},
    "chi2": {"epsilon": 0.1, "tau": 1.0, "divergence": "chi2"},
    "partial": {"epsilon": 0.1, "mass": 0.5},
    "exact tv": {"epsilon": 0.0, "tau": 0.3, "divergence": "tv"},
}
BIG = 1100, 1000  # more than 2^20 entries


def _table() -> dict[str, Call]:
    out = {
        "predict": Call(lambda rng: (rng.normal(size=(20, 4)),), _predict),
        "predict, float32": Call(lambda rng: (rng.normal(size=(20, 4)).astype(np.float32),), _predict),
    }
    for library, tensors in (("numpy", False), ("torch", True)):
        for name, settings in SMALL.items():
            run = partial(_solve, **settings)
            out[f"{name}, {library}"] = Call(partial(_problem, (9, 8)), run, tensors)
            out[f"{name}, batch, {library}"] = Call(partial(_problem, (3, 9, 8)), run, tensors)
        out[f"blocked, {library}"] = Call(_blocked, partial(_solve, epsilon=0.1, tau=1.0), tensors)
        out[f"warm, {library}"] = Call(partial(_problem, (9, 8)), _warm, tensors)
        for run in (_divergence, _estimate, _flow, _couple):
            settings = {"tau": 1.0} | ({"epsilon": 0.1} if run in (_divergence, _couple) else {})
            clouds = partial(_clouds, 12, 15)
            out[f"{run.__name__[1:]}, {library}"] = Call(clouds, partial(run, **settings), tensors)
        for run in (_estimate, _flow):
            of_divergence = partial(run, tau=1.0, loss="sinkhorn_divergence")
            out[f"{run.__name__[1:]} of divergence, {library}"] = Call(clouds, of_divergence, tensors)
        out[f"permutation, {library}"] = Call(partial(_clouds, 12, 12), _couple, tensors)
        for name, settings in LARGE.items():
            out[f"large {name}, {library}"] = Call(partial(_problem, BIG), partial(_solve, **settings), tensors, True)
        settings = {"tau": 1.0, "epsilon": 0.5}
        out[f"large divergence, {library}"] = Call(
            partial(_clouds, *BIG), partial(_divergence, **settings), tensors, True
        )
    return out | {"joint": Call(clouds, _joint, True)}


CALLS = _table()
