"""The base class of methods: the loss terms for a network and two minibatches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from jumbot.cost import number_loss
from jumbot.methods.network import Network
from jumbot.methods.options import MethodOptions


@dataclass(frozen=True)
class Batch:
    """One minibatch of each domain; `progress` runs from 0 to 1 over the adaptation, `step` counts its minibatches.

    `target_index` says which of all target samples these are, for methods that store something for each of them.
    `extra` are further source samples, drawn separately, and their labels, if the method requests them.  `origin` says
    which of several sources each source sample is from; `labelled` are target samples with known labels, and these.
    """

    source: Tensor
    labels: Tensor
    target: Tensor
    progress: float = 0.0
    step: int = 0
    target_index: Tensor | None = None
    extra: tuple[Tensor, Tensor] | None = None
    origin: Tensor | None = None
    labelled: tuple[Tensor, Tensor] | None = None


@dataclass(frozen=True)
class Terms:
    """Loss terms whose sum is minimised; the detached plan (source, target) and its value, where there is one."""

    losses: dict[str, Tensor]
    plan: Tensor | None = None
    value: Tensor | None = None

    @property
    def total(self) -> Tensor:
        return torch.stack([loss.float() for loss in self.losses.values()]).sum()


@dataclass(frozen=True)
class TargetOutputs:
    """The outputs of the network for all target samples, on the CPU, for methods that use all of them at intervals."""

    embeddings: Tensor
    logits: Tensor


class Method(nn.Module):
    """Base of all methods.  A subclass sets `name` and `Options`, and writes `terms`.

    It may own layers (a discriminator): they are trained with the rate of new layers, or by an `own_optimizer`.
    `refresh` is called with the network's outputs on all target samples before the first step and then every
    `refresh_interval` steps.

    Parameters
    ----------
    options : MethodOptions
        The options, an instance of the class attribute `Options`.
    features : int
        Width of the embedding.
    classes : int
        How many classes, or numbers to predict.

    Attributes
    ----------
    name : str
        The name of the method.
    label_loss : str
        What a wrong prediction costs: "cross-entropy", or "squared" or "huber" where numbers are predicted.
    """

    name: ClassVar[str]
    label_loss: str = "cross-entropy"
    Options: ClassVar[type[MethodOptions]] = MethodOptions
    refresh_every: ClassVar[int | None] = None

    def __init__(self, options: Any, *, features: int, classes: int) -> None:
        super().__init__()
        self.options, self.features, self.classes = options, features, classes

    def terms(self, network: Network, batch: Batch) -> Terms:
        raise NotImplementedError

    def use_sources(self, count: int, trust: Callable[[], Sequence[float]]) -> None:
        """Called if there are several sources; methods that weight them override this, and use how far each can be
        trusted.
        """

    def use_label_loss(self, label_loss: str) -> None:
        """Learn from labels of this kind."""
        self.label_loss = label_loss

    def end_step(self) -> None:
        """Called after each step of the optimisers, on every process."""

    def decisions(self) -> list[str]:
        """What the method has decided during training, a sentence each, for the report."""
        return []

    def refresh(self, outputs: TargetOutputs) -> None:
        """Use the whole target; methods that do not need it leave this unchanged."""

    def refresh_interval(self, steps: int) -> int | None:
        """Steps between two calls of `refresh` in an adaptation of so many steps; None: it is never called.

        The option `refresh_every` is used unchanged.  Otherwise the published interval of the class, made for 10,000
        steps and more, is shortened so that a run has at least twenty calls.
        """
        given: int | None = getattr(self.options, "refresh_every", None)
        if given is not None or self.refresh_every is None:
            return given
        return max(1, min(self.refresh_every, steps // 20))

    def extra_samples(self, batch_size: int, progress: float) -> int:
        """How many further source samples `batch.extra` must contain for a minibatch of that size."""
        return 0

    def own_optimizer(self) -> torch.optim.Optimizer | None:
        """An optimiser for the method's own layers, at a rate that no schedule changes; None: the network's."""
        return None


def source_term(
    logits: Tensor, labels: Tensor, weights: Tensor | None = None, label_loss: str = "cross-entropy"
) -> Tensor:
    """The mean cross-entropy on the source, or another loss of its labels, weighted where weights are given."""
    if label_loss != "cross-entropy":
        losses = number_loss(labels, logits.float(), label_loss)
    elif weights is None:
        return F.cross_entropy(logits, labels)
    else:
        losses = F.cross_entropy(logits, labels, reduction="none")
    return losses.mean() if weights is None else (weights * losses).mean()
