"""The keywords of `jumbot.adapt` and `jumbot.tune`, for editors and type checkers.

The options classes say what a value must be; these repeat their names and types, because a type checker reads no
dataclass for `**options`.  A test compares both.  Types are wider where the functions convert what they are given: any
sequence where the options class has a tuple, a path where it has a text.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict

from jumbot._settings.reading import Corrupt, Kind
from jumbot._settings.training import Rule, Tracker


class ReadingKeywords(TypedDict, total=False):
    """How data are read: `Reading` without `task`, which is a parameter of the functions."""

    label: str | Sequence[str] | None
    id: str | None
    drop: str | Sequence[str]
    domain: str | None
    domain_column: str | None
    kind: Kind | None
    corrupt: Corrupt
    root: str | Path | None


class TrainingKeywords(TypedDict, total=False):
    """How a run is trained: `Training`."""

    batch_size: int
    sampler: Literal["stratified", "shuffled"]
    source_epochs: int
    epochs: int | None
    steps: int | None
    source_steps: int | None
    optimizer: Literal["adam", "adamw", "sgd"]
    learning_rate: float
    backbone_rate: float
    schedule: Literal["constant", "inverse", "flat-cosine"]
    schedule_steps: int | None
    weight_decay: float
    k: int
    global_plan: bool
    seed: int
    select: Rule
    label_loss: Literal["squared", "huber"] | None
    validation: float
    evaluate_every: int | None
    evaluate_samples: int | None
    checkpoint_every: int | None
    mixed_precision: Literal["no", "fp16", "bf16"]
    batch_norm: Literal["running", "target"]
    device: str
    workers: int | None
    trackers: Sequence[Tracker]
    tensorboard: bool


class NetworkKeywords(TypedDict, total=False):
    """Which network is trained: `NetworkOptions` without `backbone`, which is a parameter of `adapt`."""

    features: int | None
    hidden: Sequence[int]
    dropout: float
    bins: int
    rank: int
    weights: str | Path | None
    freeze: bool


class InputKeywords(TypedDict, total=False):
    """How samples reach the network: `Inputs`."""

    size: int | None
    channels: int | None
    pixels: Literal["symmetric", "imagenet", "unit", "as-is"]
    augment: Literal["none", "crop", "resized-crop"]
    views: Literal["whole", "centre-crop", "ten-crop"]
    partial: str | None
    thin: int | None
    standardise: Literal["auto", "source", "none"]
    columns: Literal["same", "shared"]
    dates: bool | str | Sequence[str] | None
    text: bool | str | Sequence[str] | None


class MethodKeywords(TypedDict, total=False):
    """The options of all methods; whether a method has one is checked when it is used."""

    eta1: float
    eta2: float
    eta3: float
    scale: Literal["auto"] | None
    scale_at: float
    engine: Literal["auto", "cpu", "device"]
    epsilon: float
    variant: Literal["paper", "original"]
    cost_weights: Literal["recipe", "original"]
    eta3_ramp: float
    tau: float
    reference: Literal["product", "ones"]
    proportions: Literal["equal", "estimated"]
    source_loss: Literal["uniform", "plan"]
    mass: float
    mass_ramp: float
    reward: float
    weight: float
    reversal_steps: int | None
    reversal_ceiling: float
    discriminator_width: int
    map: Literal["outer", "random"]
    random_features: int
    entropy_gradient: bool
    threshold: float
    self_training: float
    over_classes: Literal["mean", "sum"]
    ramp: bool
    rho: float
    critic_steps: int
    refresh_every: int | None
    critic_width: int
    critic_rate: float
    temperature: float
    entropy: float
    auxiliary_domain: float
    auxiliary_label: float
    auxiliary_width: int
    complement: float
    extra: float


class TuneKeywords(ReadingKeywords, TrainingKeywords, NetworkKeywords, InputKeywords, total=False):
    """What `jumbot.tune` takes besides its parameters: methods and their options are what it chooses."""

    backbone: str | None
    command: str | None


class AdaptKeywords(ReadingKeywords, TrainingKeywords, NetworkKeywords, InputKeywords, MethodKeywords, total=False):
    """What `jumbot.adapt` takes besides its parameters."""

    command: str | None
    report: bool
    labelled: Any
