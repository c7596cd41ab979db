"""Every argument of every function of the core with odd values: accepted for a reason, or refused by its name."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import jumbot
from jumbot import bounds
from jumbot.errors import JumbotError

ODD: dict[str, Any] = {
    "-1": -1,
    "0": 0,
    "1.5": 1.5,
    "1e30": 1e30,
    "10**30": 10**30,
    "10**400": 10**400,
    "nan": math.nan,
    "inf": math.inf,
    "-inf": -math.inf,
    "''": "",
    "'many'": "many",
    "'3'": "3",
    "b'3'": b"3",
    "[]": [],
    "{}": {},
    "None": None,
    "True": True,
    "object": object(),
    "1j": 1j,
    "[nan]": np.array([math.nan]),
}
NUMBER = {"1.5": "a number", "1e30": "large, and finite", "10**30": "large, and finite"}
NONE = {"None": "the default"}
FLAG = {"True": "a choice"}
WEIGHT = {"0": "nothing of it", **NUMBER}
ACCEPTED: dict[str, dict[str, str]] = {
    "a": NONE,
    "b": NONE,
    "init": NONE,
    "generator": NONE,
    "labels_t": NONE,
    "weights_s": NONE,
    "callback": NONE,
    "epsilon": {**WEIGHT, "0": "exact"},
    "tau": {**NUMBER, "inf": "an exact marginal"},
    "tol": WEIGHT,
    "mass": NONE,
    "eta1": WEIGHT,
    "eta2": WEIGHT,
    "scale": {**NUMBER, **NONE},
    "learning_rate": {"1.5": "a number"},
    "reward": WEIGHT,
    "chunk": NONE,
    "cost_bound": {**WEIGHT, **NONE},
    "precision": NONE,
    "seed": {"0": "a seed"},
    "snapshots": {"[]": "none are taken"},
    "plan": FLAG,
    "return_index": FLAG,
    "printed": FLAG,
    "value": WEIGHT,
    "mean_cost": WEIGHT,
    "mass_a": NUMBER,
    "mass_b": NUMBER,
    "loss_bound": WEIGHT,
    "cost_least": {},
    "zeta": {"0": "the outlier alone"},
    "memory": {**NONE, "1e30": "no bound at all", "10**30": "no bound at all"},
    "solve_sample.epsilon": NUMBER,
    "gradient_flow.learning_rate": NUMBER,
    "couple.seed": {"0": "a seed", "None": "drawn again"},
    "conditions": NONE,
    "draw": NONE,
    "replace": {**NONE, **FLAG},
    "return_mass": FLAG,
    "certify.plan": {},
    "certify.potentials": NONE,
    "certify.x": NONE,
    "certify.y": NONE,
    "deviation_bound.k": {"None": "the complete estimator"},
    "marginal_bound.mass": WEIGHT,
    "mass_bound.cost_least": {"0": "no cost is below"},
}
"""Odd values that an argument may have, and why; by its name, or by function and name."""

_rng = np.random.default_rng(0)
X, Y = _rng.normal(size=(6, 2)), _rng.normal(size=(6, 2))
COST = ((X[:, None] - Y) ** 2).sum(-1)
PROBLEM: dict[str, Any] = {"epsilon": 1.0, "tau": math.inf}
SOURCE, TARGET = torch.from_numpy(X), torch.from_numpy(Y)


def forward(**given: Any) -> Any:
    return jumbot.JointTransportLoss(1.0, 1.0, 1.0, 1.0).forward(**given)


CALLS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "solve": (jumbot.solve, {"cost": COST, **PROBLEM, "max_iterations": 50}),
    "sinkhorn_divergence": (jumbot.sinkhorn_divergence, {"x": X, "y": Y, **PROBLEM, "max_iterations": 50}),
    "solve_sample": (jumbot.solve_sample, {"x": X, "y": Y, **PROBLEM, "max_iterations": 50}),
    "estimate": (jumbot.estimate, {"x": X, "y": Y, "m": 2, "k": 2, "budget": 4, **PROBLEM}),
    "gradient_flow": (
        jumbot.gradient_flow,
        {"x0": X, "y": Y, "m": 2, "steps": 1, "learning_rate": 0.1, **PROBLEM},
    ),
    "certify": (jumbot.certify, {"cost": COST, "plan": np.full((6, 6), 1 / 36), **PROBLEM}),
    "couple": (jumbot.couple, {"x0": X, "x1": Y, "seed": 0, **PROBLEM}),
    "JointTransportLoss": (jumbot.JointTransportLoss, {"eta1": 1.0, "eta2": 1.0, "tau": 1.0, "epsilon": 1.0}),
    "forward": (
        forward,
        {"features_s": SOURCE, "labels_s": torch.arange(6) % 2, "features_t": TARGET, "logits_t": TARGET},
    ),
    "sample": (jumbot.solve(COST, epsilon=1.0).sample, {"n": 2}),
    "standard_error": (jumbot.estimate(X, Y, m=2, k=2, epsilon=1.0).standard_error, {}),
    "interval": (jumbot.estimate(X, Y, m=2, k=2, epsilon=1.0).interval, {}),
    "bound": (jumbot.estimate(X, Y, m=2, k=2, epsilon=1.0).bound, {"delta": 0.1}),
    "outlier_upper_bound": (bounds.outlier_upper_bound, {"value": 1.0, "mean_cost": 1.0, "zeta": 0.1, "tau": 1.0}),
    "outlier_lower_bound": (bounds.outlier_lower_bound, {"value": 1.0, "cost": COST[0], "g": COST[1], "zeta": 0.1}),
    "value_bound": (bounds.value_bound, {"cost_bound": 1.0, "epsilon": 1.0, "tau": 1.0}),
    "divergence_bound": (bounds.divergence_bound, {"cost_bound": 1.0, "epsilon": 1.0, "tau": 1.0}),
    "loss_bound": (bounds.loss_bound, {"cost_bound": 1.0, "loss": "transport", "epsilon": 1.0, "tau": 1.0}),
    "mass_bound": (bounds.mass_bound, {"cost_bound": 1.0, "epsilon": 1.0, "tau": 1.0}),
    "deviation_bound": (bounds.deviation_bound, {"loss_bound": 1.0, "n": 10, "m": 2, "delta": 0.1}),
    "marginal_bound": (bounds.marginal_bound, {"mass": 1.0, "k": 3, "delta": 0.1}),
}


def arguments() -> list[Any]:
    found = []
    for name, (function, needed) in CALLS.items():
        taken = inspect.signature(jumbot.JointTransportLoss.forward if function is forward else function).parameters
        assert set(needed) <= set(taken), name
        found += [pytest.param(name, each, id=f"{name}-{each}") for each in taken if each != "self"]
    return found


def answer(use: Callable[[], Any]) -> str:
    """What is refused, nothing where it is accepted; other errors pass."""
    try:
        use()
    except JumbotError as error:
        return str(error)
    return ""


def test_every_bound_is_among_them() -> None:
    assert set(bounds.__all__) <= set(CALLS)


@pytest.mark.parametrize(("call", "argument"), arguments())
def test_odd_values(call: str, argument: str) -> None:
    function, needed = CALLS[call]
    reasons = ACCEPTED.get(f"{call}.{argument}", ACCEPTED.get(argument, {}))
    for shown, value in ODD.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of problems that are hard, not of arguments
            message = answer(lambda: function(**{**needed, argument: value}))  # noqa: B023 - called at once
        assert argument in message if message else shown in reasons, (shown, message or "accepted")
