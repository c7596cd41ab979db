"""How much each of several sources counts: as much as the plan takes from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

_MEMORY = 0.3  # a poor source teaches wrong labels as long as it counts: at .05 that cost a task four points
_LEAST = 0.02  # of an equal share: a source that counts for nothing could never come back


class SourceWeights(nn.Module):
    r"""Shares w_s of the sources, a running mean of what each gives to the target.

    .. math:: w_s \leftarrow .7\, w_s + .3\, \frac{\sum_{i \in s} \sum_j P_{ij}}{\sum_{ij} P_{ij}}

    P is unbalanced, and its source marginal is made of w: EM for the proportions of a mixture, in which a source
    whose samples lie far from the target, or whose labels contradict the predictions there, gives less and less.
    A source whose labels are doubtful by themselves, `trust` < 1, has that share of its weight.

    >>> weights = SourceWeights(2)
    >>> weights.observe(torch.tensor([[0.3], [0.1]]), torch.tensor([0, 1]))
    >>> weights.settle()
    >>> weights.shares
    tensor([0.5750, 0.4250])
    """

    shares: Tensor
    trust: Tensor

    def __init__(self, count: int, trust: Sequence[float] | None = None) -> None:
        super().__init__()
        self.register_buffer("shares", torch.full((count,), 1 / count))
        known = torch.ones(count) if trust is None else torch.tensor(trust).clamp_min(_LEAST)
        self.register_buffer("trust", known, persistent=False)  # it is found anew where a run goes on
        self.seen: list[Tensor] = []

    @property
    def counted(self) -> Tensor:
        """What each source counts in all, of sum 1."""
        weights = self.trust * self.shares
        return weights / weights.sum()

    def forward(self, origin: Tensor) -> Tensor:
        """What samples of these sources count: of mean 1."""
        weights = (self.trust * self.shares)[origin] / torch.bincount(origin, minlength=len(self.shares))[origin]
        return weights / weights.mean()

    @torch.no_grad()
    def observe(self, plan: Tensor, origin: Tensor) -> None:
        """Look at a plan."""
        given = torch.zeros_like(self.shares).index_add_(0, origin, plan.sum(1).to(self.shares.dtype))
        if float(given.sum()) > 0:
            self.seen.append(given / given.sum())

    @torch.no_grad()
    def settle(self, mean: Callable[[Tensor], Tensor] = torch.clone) -> None:
        """Move by what was seen; `mean` takes the mean over processes, where there are several."""
        if self.seen:
            shares = (1 - _MEMORY) * self.shares + _MEMORY * mean(torch.stack(self.seen).mean(0))
            shares = shares.clamp_min(_LEAST / len(shares))
            self.shares.copy_(shares / shares.sum())
            self.seen = []

    def to_words(self) -> str:
        """What was decided, for the report."""
        counted = ", ".join(f"{100 * share:.0f} %" for share in self.counted.tolist())
        said = f"the sources counted for {counted} at the end of training, in their order, as the plans took from them"
        doubtful = [str(s + 1) for s, trust in enumerate(self.trust.tolist()) if trust < 1]
        if doubtful:
            said += f"; labels of source {', '.join(doubtful)} contradict their own neighbours"
        return said
