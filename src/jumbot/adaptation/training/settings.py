"""How to train: one dataclass for the function, the command and the record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from jumbot.errors import ArgumentError


@dataclass(frozen=True)
class Training:
    """Length, optimiser and records of a training run."""

    batch_size: int = 50
    """Samples of each domain in a minibatch; the source's are stratified by class."""
    source_epochs: int = 0
    """Passes over the source before adaptation, on the source alone."""
    epochs: int | None = None
    """Passes over the source during adaptation; an epoch is floor(source samples / batch_size) steps."""
    steps: int | None = None
    """Steps of adaptation, instead of epochs."""
    source_steps: int | None = None
    """Steps on the source alone, instead of source_epochs."""
    optimizer: Literal["adam", "sgd"] = "sgd"
    """Adam, or SGD with momentum .9 (Nesterov)."""
    learning_rate: float = 0.01
    """Rate of the new layers."""
    backbone_rate: float = 0.1
    """Rate of a pretrained backbone, as a share of learning_rate."""
    schedule: Literal["constant", "inverse"] = "inverse"
    """"inverse" multiplies the rate by (1 + 10 progress)^-.75."""
    weight_decay: float = 0.001
    """Weight decay of SGD."""
    k: int = 1
    """Pairs of minibatches averaged in a step: the paper's k, on one process."""
    global_plan: bool = False
    """With several processes: join their minibatches into one problem instead of averaging over them."""
    seed: int = 0
    """Everything random follows from it."""
    select: str = "last"
    """The rule that chooses the model: last, or a label-free score: entropy, infomax, snd, source_validation,
    transport. "oracle" looks at the target's labels, and every output says so."""
    validation: float = 0.0
    """Share of the source held out for the score source_validation."""
    evaluate_every: int | None = None
    """Steps between evaluations; by default an epoch, and at least 10 steps."""
    evaluate_samples: int | None = None
    """Look at this many samples in evaluations along the way; the last is always whole."""
    checkpoint_every: int | None = None
    """Steps between checkpoints; by default once a minute."""
    mixed_precision: Literal["no", "fp16", "bf16"] = "no"
    """Autocast of the network; the solver stays in float32 and float64."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to train."""
    tensorboard: bool = False
    """Also write the curves for TensorBoard into the run folder."""

    def __post_init__(self) -> None:
        for name in ("batch_size", "k"):
            if getattr(self, name) < 1:
                raise ArgumentError(f"{name}: {getattr(self, name)} came in; it must be at least 1.")
        for name in (
            "source_epochs",
            "epochs",
            "steps",
            "source_steps",
            "evaluate_every",
            "backbone_rate",
            "weight_decay",
        ):
            if (value := getattr(self, name)) is not None and value < 0:
                raise ArgumentError(f"{name}: {value} came in; it must not be negative.")
        if not self.learning_rate > 0:
            raise ArgumentError(f"learning_rate: {self.learning_rate} came in; it must be positive.")
        if not 0 <= self.validation < 1:
            raise ArgumentError(f"validation: {self.validation} came in; it is a share of the source, 0 <= share < 1.")
        for name, known in (("optimizer", ("adam", "sgd")), ("schedule", ("constant", "inverse"))):
            if getattr(self, name) not in known:
                raise ArgumentError(f"{name}: {getattr(self, name)!r} is not known; use {' or '.join(known)}.")

    def lengths(self, samples: int) -> tuple[int, int, int]:
        """(steps per epoch, steps on the source alone, steps of adaptation) for a source of that many samples."""
        epoch = max(1, samples // self.batch_size)
        source = self.source_epochs * epoch if self.source_steps is None else self.source_steps
        if self.steps is not None:
            return epoch, source, self.steps
        return epoch, source, epoch * self.epochs if self.epochs is not None else 500
