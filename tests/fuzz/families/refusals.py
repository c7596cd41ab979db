"""Input that is out of contract: an error of the one tree, before any work, whatever else is in the call."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import jumbot

from ..case import Case, random_case
from ..draw import Generator
from ..report import Report
from ..watch import Refused, Watch

Spoil = Callable[[Generator, dict[str, Any], Case], dict[str, Any]]


def _entry(value: float, name: str) -> Spoil:
    """Some entry of the cost or of the weights replaced."""

    def spoil(rng: Generator, arguments: dict[str, Any], case: Case) -> dict[str, Any]:
        n, m = case.shape[-2:]
        x = arguments.get(name)
        size = {"a": n, "b": m}.get(name)
        array = (
            np.full(size, 1 / size, case.dtype) if x is None else np.array(x.detach().numpy() if _is_tensor(x) else x)
        )
        array.flat[int(rng.integers(array.size))] = value
        return arguments | {name: torch.from_numpy(array) if case.library == "torch" else array}

    return spoil


def _is_tensor(x: Any) -> bool:
    return isinstance(x, torch.Tensor)


def _with(**changes: Any) -> Spoil:
    return lambda rng, arguments, case: arguments | changes


def _longer(rng: Generator, arguments: dict[str, Any], case: Case) -> dict[str, Any]:
    w = np.full(case.shape[-2] + 1, 0.1, case.dtype)
    return arguments | {"a": torch.from_numpy(w) if case.library == "torch" else w}


def _cost(make: Callable[[torch.Tensor], Any]) -> Spoil:
    """The cost as another kind of object; weights left out, which would be of the wrong kind too."""

    def spoil(rng: Generator, arguments: dict[str, Any], case: Case) -> dict[str, Any]:
        cost = arguments["cost"]
        cost = cost.detach() if _is_tensor(cost) else torch.from_numpy(np.array(cost))
        return {k: v for k, v in arguments.items() if k not in ("a", "b")} | {"cost": make(cost)}

    return spoil


SPOILED: dict[str, Spoil] = {
    "NaN cost": _entry(math.nan, "cost"),
    "cost of minus infinity": _entry(-math.inf, "cost"),
    "NaN weight": _entry(math.nan, "a"),
    "infinite weight": _entry(math.inf, "b"),
    "negative weight": _entry(-0.1, "a"),
    "weights too long": _longer,
    "epsilon negative": _with(epsilon=-1.0),
    "epsilon NaN": _with(epsilon=math.nan),
    "tau zero": _with(tau=0.0, mass=None),
    "tau negative in a pair": _with(tau=(1.0, -1.0), mass=None),
    "three taus": _with(tau=(1.0, 1.0, 1.0), mass=None),
    "divergence unknown": _with(divergence="kullback", mass=None),
    "finite tau with a range": _with(divergence="range(0.5,2)", tau=1.0, mass=None),
    "reference unknown": _with(reference="uniform"),
    "mass beside tau": _with(mass=0.1, tau=1.0),
    "mass of zero": _with(mass=0.0, tau=math.inf, divergence="kl"),
    "tol negative": _with(tol=-1e-3),
    "no iterations": _with(max_iterations=0),
    "tol of nan": _with(tol=math.nan),
    "half an iteration": _with(max_iterations=0.5),
    "complex": _cost(lambda c: c.to(torch.complex64)),
    "sparse": _cost(lambda c: torch.ones_like(c).to_sparse()),
    "meta": _cost(lambda c: c.to("meta")),
    "one row alone": _cost(lambda c: c.reshape(-1)),
    "no rows": _cost(lambda c: c[..., :0, :]),
    "text": _cost(lambda c: np.array([["a", "b"]])),
}


def out_of_contract(rng: Generator, watch: Watch, report: Report) -> None:
    case = random_case(rng)
    name = str(rng.choice(list(SPOILED)))
    arguments = SPOILED[name](rng, case.arguments, case)
    report.label, report.problems = f"{name} in {case.label}", 0
    try:
        watch(jumbot.solve, **arguments)
    except Refused:
        report.refused = 1
        return
    report.faults.append(f"{name} was accepted")
