"""Class proportions of the target, estimated by the plan; they weight the source if they are reliable."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

WAIT = 1 / 3
"""Share of the adaptation during which the classes have equal weights and the evidence is gathered."""
LEAST_EVIDENCE = 0.85
LEAST_SHIFT = 0.2
OUTSIDE = 0.02
"""A sample that receives less than this share of its mass belongs to no class and has no vote on the proportions."""
LEAST_WEIGHT = 0.01
"""Of an equal share: a class without weight could never regain any."""
_MEMORY = 0.05


class TargetProportions(nn.Module):
    r"""Running shares q of the classes in the target, and whether they are trusted.

    Each target sample that receives mass has one vote, shared among the classes as its column of the plan; q follows
    the mean vote.  Fed back into the source weights this is a relative of the EM algorithm for label shift, and like it
    diverges if the votes are wrong.  So classes have equal weights for the first third of the adaptation, and q is
    used afterwards only if by then

    * at least .85 of all target samples receive mass and vote as the classifier predicts: the evidence, and
    * q is at least .2 away from equal shares in total variation: a smaller shift is not worth its noise.

    Office-Caltech10 features gave evidence of .87 and more and gained up to six points on partial and imbalanced
    targets; digits as rows of pixels, where the classifier starts poor and the same weights cost 2 to 27 points, at
    most .71.  The bounds lie between.

    >>> shares = TargetProportions(2)
    >>> plan, labels = torch.tensor([[0.5, 0.5], [0.0, 0.0]]), torch.tensor([0, 1])
    >>> for step in range(100):
    ...     shares.observe(plan, labels, torch.tensor([[1.0, 0.0], [1.0, 0.0]]))
    ...     shares.settle(progress=step / 100)
    >>> shares.trusted, shares.weights(labels).round(decimals=2)
    (True, tensor([1.9900, 0.0100]))
    """

    shares: Tensor
    evidence: Tensor
    decision: Tensor

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.classes = classes
        self.register_buffer("shares", torch.full((classes,), 1 / classes))
        self.register_buffer("evidence", torch.tensor(-1.0))
        self.register_buffer("decision", torch.tensor(-1))  # -1: not yet, 0: equal shares, 1: those of the plan
        self.seen: list[Tensor] = []

    @property
    def trusted(self) -> bool:
        return int(self.decision) == 1

    @property
    def shift(self) -> float:
        """Total variation between the shares and equal ones."""
        return float((self.shares - 1 / self.classes).abs().sum() / 2)

    def weights(self, labels: Tensor) -> Tensor | None:
        """The weight of each sample of a source minibatch, 1 on average; None: equal weights."""
        if not self.trusted:
            return None
        counts = torch.bincount(labels, minlength=self.classes)
        shares = self.shares.clamp_min(LEAST_WEIGHT / self.classes)
        weights = (shares / counts.clamp_min(1))[labels]
        return weights / weights.mean()

    @torch.no_grad()
    def observe(self, plan: Tensor, labels: Tensor, logits_t: Tensor) -> None:
        """Count the votes of a plan `(n, m)` between source samples with `labels` and target samples."""
        received = plan.new_zeros(self.classes, plan.shape[1]).index_add_(0, labels, plan)
        mass = received.sum(0)
        voting = mass * plan.shape[1] >= OUTSIDE
        votes = (received / mass.clamp_min(torch.finfo(plan.dtype).tiny)) * voting
        agreeing = (votes.argmax(0) == logits_t.argmax(-1)) & voting
        # without votes, the shares are equal
        mean = torch.where(voting.any(), votes.sum(1) / voting.sum().clamp_min(1), 1 / self.classes)
        self.seen.append(torch.cat([mean.float(), agreeing.float().mean()[None]]))

    @torch.no_grad()
    def settle(self, progress: float, mean: Callable[[Tensor], Tensor] = torch.clone) -> None:
        """Move by what was seen in a step, and decide where it is time; `mean` is that over processes."""
        if not self.seen:
            return
        *votes, evidence = mean(torch.stack(self.seen).mean(0))
        self.seen = []
        self.shares = (1 - _MEMORY) * self.shares + _MEMORY * torch.stack(votes)
        before = torch.where(self.evidence < 0, evidence, self.evidence)
        if int(self.decision) < 0:
            self.evidence = (1 - _MEMORY) * before + _MEMORY * evidence
            if progress >= WAIT:
                trusted = float(self.evidence) >= LEAST_EVIDENCE and self.shift >= LEAST_SHIFT
                self.decision.fill_(int(trusted))

    def to_words(self) -> str:
        """What was decided, and why."""
        if int(self.decision) < 0:
            return "the target's class proportions were not used: the run was too short to estimate them"
        if float(self.evidence) < LEAST_EVIDENCE:
            return (
                "the target's estimated class proportions were not used: after a third of the adaptation only "
                f"{100 * float(self.evidence):.0f} % of the target samples were matched to the class that the "
                f"classifier predicts, and at least {100 * LEAST_EVIDENCE:.0f} % are needed"
            )
        away = f"by {100 * self.shift:.0f} % of the samples"
        if not self.trusted:
            return (
                "all classes have the same weight: the estimated class proportions of the target differ from equal "
                f"ones {away} only"
            )
        return f"classes are weighted by their estimated proportions in the target, which differ from equal ones {away}"
