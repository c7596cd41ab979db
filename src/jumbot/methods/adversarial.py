"""What the adversarial methods share: gradient reversal and its ramp, the discriminator, weights from entropies."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from jumbot.methods.base import Batch, Method
from jumbot.methods.network import xavier


def reversal(progress: float) -> float:
    """2 / (1 + exp(-10 p)) - 1: how strongly the features oppose the discriminator, from 0 to almost 1.

    >>> [round(reversal(p), 3) for p in (0.0, 0.1, 0.5, 1.0)]
    [0.0, 0.462, 0.987, 1.0]
    """
    return 2 / (1 + math.exp(-10 * progress)) - 1


class _Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, coefficient: float) -> Tensor:
        ctx.coefficient = coefficient
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return -ctx.coefficient * grad, None


def reverse(x: Tensor, coefficient: float) -> Tensor:
    """x itself, whose gradient is multiplied by -coefficient on the way back.

    >>> x = torch.ones(2, requires_grad=True)
    >>> reverse(3 * x, 0.5).sum().backward()
    >>> x.grad
    tensor([-1.5000, -1.5000])
    """
    out: Tensor = _Reverse.apply(x, coefficient)
    return out


class Adversarial(Method):
    """A method whose features oppose a discriminator, more and more along the ramp of `reversal`."""

    def __init__(self, options: Any, *, features: int, classes: int) -> None:
        super().__init__(options, features=features, classes=classes)
        self.discriminator = self.make_discriminator()

    def make_discriminator(self) -> Discriminator:
        """One score per embedding, for methods that have no other."""
        return Discriminator(self.features, hidden=self.options.discriminator_width)

    def opposed(self, features_s: Tensor, features_t: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """The `domain_losses` of these embeddings, which receive the gradient reversed."""
        strength = self.strength(batch)
        scores_s, scores_t = (self.discriminator(reverse(z, strength)) for z in (features_s, features_t))
        return domain_losses(scores_s, scores_t)

    def ramp(self, batch: Batch) -> float:
        """`reversal` at p = step / reversal_steps, or at the progress of the run."""
        steps = self.options.reversal_steps
        return reversal(batch.progress if steps is None else batch.step / steps)

    def strength(self, batch: Batch) -> float:
        """How much of the discriminator's gradient the features receive, reversed."""
        ceiling: float = self.options.reversal_ceiling
        return ceiling * self.ramp(batch)


class Discriminator(nn.Sequential):
    """hidden - hidden - outputs, with ReLU and dropout .5; scores are logits, high for the source."""

    def __init__(self, width: int, *, hidden: int = 1024, outputs: int = 1) -> None:
        super().__init__(
            nn.Linear(width, hidden),
            nn.ReLU(),
            nn.Dropout(0.5),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            nn.Dropout(0.5),
            nn.Linear(hidden, outputs),
        )
        xavier(self)


def domain_losses(scores_s: Tensor, scores_t: Tensor) -> tuple[Tensor, Tensor]:
    """The binary cross-entropies of source = 1 and target = 0, one per sample.

    >>> domain_losses(torch.zeros(2, 1), torch.zeros(1, 1))
    (tensor([0.6931, 0.6931]), tensor([0.6931]))
    """
    return F.softplus(-scores_s.float()).squeeze(1), F.softplus(scores_t.float()).squeeze(1)


def entropy(logits: Tensor) -> Tensor:
    """H = -sum_k p_k log p_k of each row, p = softmax(logits).

    >>> entropy(torch.zeros(1, 4))
    tensor([1.3863])
    """
    log_p = logits.float().log_softmax(-1)
    return -(log_p.exp() * log_p).sum(-1)


def entropy_weights(entropies: Tensor) -> Tensor:
    """w = 1 + exp(-H), scaled to mean 1: confident samples count up to twice as much as undecided ones.

    Where a gradient flows through the entropies, the scale is held fixed, as in the published code of CDAN.

    >>> entropy_weights(torch.tensor([0.0, torch.inf]))
    tensor([1.3333, 0.6667])
    """
    weights = 1 + torch.exp(-entropies)
    return weights / weights.mean().detach()
