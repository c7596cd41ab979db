"""Recipes: settings that belong together, one for each kind of data; every value can be changed on its own."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jumbot.adaptation.networks.build import NetworkOptions
from jumbot.adaptation.training.settings import Training
from jumbot.errors import ArgumentError
from jumbot.methods import method_class, method_options


@dataclass(frozen=True)
class Inputs:
    """How samples are brought to the network."""

    size: int | None = None
    """Side of the images; by default the larger of the two domains."""
    channels: int | None = None
    """1 or 3; by default the larger of the two domains."""
    pixels: str = "symmetric"
    """"symmetric" scales to [-1, 1], "imagenet" by ImageNet's mean and deviation."""
    augment: str = "none"
    """Of training images: "resized-crop" (random size and place) or "crop" (random place), each with a flip."""
    views: str = "whole"
    """Of images that are predicted: "whole", "centre-crop" or "ten-crop"."""
    partial: str | None = None
    """Keep only these classes of a labelled target, to study partial adaptation: "first:25" or names with commas."""
    standardise: str = "none"
    """"source" scales the columns of a table to mean 0 and deviation 1 on the source."""
    columns: str = "same"
    """"shared" takes the columns that both tables have; otherwise one that only one of them has is refused."""


@dataclass(frozen=True)
class Recipe:
    """Changes to the defaults of `Training`, `NetworkOptions`, `Inputs`, and of each method's options."""

    help: str
    training: Mapping[str, Any] = field(default_factory=dict)
    network: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, Any] = field(default_factory=dict)
    methods: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def _transport(eta1: float, eta2: float, eta3: float, tau: float, epsilon: float) -> dict[str, dict[str, Any]]:
    return {
        "jumbot": {"eta1": eta1, "eta2": eta2, "eta3": eta3, "tau": tau, "epsilon": epsilon},
        "deepjdot": {"eta1": eta1, "eta2": eta2, "eta3": eta3},
    }


_IMAGES = {
    "evaluate_every": 500,
    "evaluate_samples": 1000,
    "optimizer": "sgd",
    "learning_rate": 0.01,
    "schedule": "inverse",
    "weight_decay": 0.001,
    "backbone_rate": 0.1,
}

RECIPES: dict[str, Recipe] = {
    "table": Recipe(
        "rows of numbers, such as features of a pretrained network",
        training={"batch_size": 50, "steps": 500},
        methods=_transport(0.01, 0.5, 1.0, 0.5, 0.01),
    ),
    "table-partial": Recipe(
        "rows of numbers, where the target lacks classes of the source: the paper's partial settings, twice its tau",
        training={"batch_size": 50, "steps": 500},
        # at the paper's .06 only 7 % of the mass moves on features that are not fine-tuned: of .06, .12 and .25 the
        # least tau that moves a quarter, which SND prefers too (Office-Caltech10, no labels)
        methods=_transport(0.003, 0.75, 10.0, 0.12, 0.01),
    ),
    "digits": Recipe(
        "the paper's digits: small images, a network from scratch",
        training={
            "batch_size": 500, "source_epochs": 10, "epochs": 100, "optimizer": "adam", "learning_rate": 2e-4,
            "schedule": "constant", "weight_decay": 0.0,
        },
        network={"backbone": "digits", "features": 128},
        methods=_transport(0.1, 0.1, 1.0, 1.0, 0.1) | {"alda": {"threshold": 0.6, "ramp": False}},
    ),
    "embedded": Recipe(
        "the digits of `jumbot demo`: the paper's settings on 16x16 images and a short schedule",
        training={
            "batch_size": 100, "source_steps": 150, "steps": 300, "optimizer": "adam", "learning_rate": 5e-4,
            "schedule": "constant", "weight_decay": 0.0, "evaluate_every": 50,
        },
        network={"backbone": "digits", "features": 128},
        methods=_transport(0.1, 0.1, 1.0, 1.0, 0.1) | {"alda": {"threshold": 0.6, "ramp": False}},
    ),
    "photographs": Recipe(
        "folders of photographs: features of a frozen, pretrained backbone, extracted once",
        training={"batch_size": 50, "steps": 500},
        network={"backbone": "efficientnet-lite0", "weights": "imagenet", "freeze": True},
        methods=_transport(0.01, 0.5, 1.0, 0.5, 0.01),
    ),
    "office-home": Recipe(
        "Office-Home: 65 classes, ResNet-50 trained whole",
        training={**_IMAGES, "batch_size": 65, "steps": 10_000},
        network={"backbone": "resnet50", "weights": "imagenet", "features": 512},
        inputs={"augment": "resized-crop", "views": "ten-crop"},
        methods=_transport(0.01, 0.5, 1.0, 0.5, 0.01),
    ),
    "office-home-partial": Recipe(
        "Office-Home with the first 25 classes as target",
        training={**_IMAGES, "batch_size": 65, "steps": 5_000},
        network={"backbone": "resnet50", "weights": "imagenet", "features": 256},
        inputs={"augment": "crop", "views": "centre-crop"},
        methods=_transport(0.003, 0.75, 10.0, 0.06, 0.01),
    ),
    "visda": Recipe(
        "VisDA-2017: 12 classes, synthetic to real, ResNet-50 trained whole",
        training={**_IMAGES, "batch_size": 72, "steps": 10_000},
        network={"backbone": "resnet50", "weights": "imagenet", "features": 256},
        inputs={"augment": "resized-crop", "views": "ten-crop"},
        methods=_transport(0.005, 1.0, 1.0, 0.3, 0.01),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """Everything that a run is made with."""

    method: str
    options: Any
    training: Training
    network: NetworkOptions
    inputs: Inputs


def make_plan(method: str, recipe: str, changes: Mapping[str, Any]) -> Plan:
    """A recipe with changes, each given to the part that has an option of that name.

    >>> plan = make_plan("jumbot", "digits", {"tau": 2.0, "batch_size": 100})
    >>> plan.options.tau, plan.training.batch_size, plan.training.epochs
    (2.0, 100, 100)
    """
    if recipe not in RECIPES:
        near = difflib.get_close_matches(str(recipe), RECIPES, n=1, cutoff=0.3)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ArgumentError(f"recipe: {recipe!r} is not known; {hint}Known: {', '.join(RECIPES)}.")
    found = RECIPES[recipe]
    parts: dict[str, type[Any]] = {
        "options": method_class(method).Options, "training": Training, "network": NetworkOptions, "inputs": Inputs,
    }  # fmt: skip
    values: dict[str, dict[str, Any]] = {
        "options": dict(found.methods.get(method, {})), "training": dict(found.training),
        "network": dict(found.network), "inputs": dict(found.inputs),
    }  # fmt: skip
    for name, value in changes.items():
        owners = [part for part, cls in parts.items() if name in {f.name for f in dataclasses.fields(cls)}]
        if not owners:
            known = [f.name for cls in parts.values() for f in dataclasses.fields(cls)]
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise ArgumentError(f"{name}: not an option of {method} or its training; {hint}Known: {', '.join(known)}.")
        for part in owners:
            values[part][name] = value
    return Plan(
        method, method_options(method, values["options"]), Training(**values["training"]),
        NetworkOptions(**values["network"]), Inputs(**values["inputs"]),
    )  # fmt: skip
