"""What JUMBOT, DeepJDOT, m-POT and ELOT share: a source term plus the cost of a plan between two minibatches.

The plan estimates the class proportions of the target; they weight the source if they are reliable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from jumbot._base.distributed import gather_rows, mean_over_processes, own_rows
from jumbot.loss import JointLoss, JointTransportLoss
from jumbot.methods.base import Batch, Method, Terms, source_term
from jumbot.methods.network import Network

_SOURCE_MEMORY = 0.3  # a poor source teaches wrong labels as long as it has weight: at .05 that cost a task four points
_LEAST = 0.02  # of an equal share: a source without weight could never regain any


class SourceWeights(nn.Module):
    r"""Shares w_s of the sources, a running mean of what each gives to the target.

    .. math:: w_s \leftarrow .7\, w_s + .3\, \frac{\sum_{i \in s} \sum_j P_{ij}}{\sum_{ij} P_{ij}}

    P is unbalanced, and w defines its source marginal: this is EM for the proportions of a mixture, in which a source
    whose samples lie far from the target, or whose labels contradict the predictions there, gives less and less.  The
    weight of a source whose labels are doubtful by themselves is multiplied by its `trust` < 1.

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
        self.register_buffer("trust", known, persistent=False)  # recomputed when a run is resumed
        self.seen: list[Tensor] = []

    @property
    def counted(self) -> Tensor:
        """The total weight of each source, with sum 1."""
        weights = self.trust * self.shares
        return weights / weights.sum()

    def forward(self, origin: Tensor) -> Tensor:
        """The weights of samples of these sources, with mean 1."""
        weights = (self.trust * self.shares)[origin] / torch.bincount(origin, minlength=len(self.shares))[origin]
        return weights / weights.mean()

    @torch.no_grad()
    def observe(self, plan: Tensor, origin: Tensor) -> None:
        """Record a plan."""
        given = torch.zeros_like(self.shares).index_add_(0, origin, plan.sum(1).to(self.shares.dtype))
        if float(given.sum()) > 0:
            self.seen.append(given / given.sum())

    @torch.no_grad()
    def settle(self, mean: Callable[[Tensor], Tensor] = torch.clone) -> None:
        """Update w from the recorded plans; `mean` averages over processes, if there are several."""
        if self.seen:
            shares = (1 - _SOURCE_MEMORY) * self.shares + _SOURCE_MEMORY * mean(torch.stack(self.seen).mean(0))
            shares = shares.clamp_min(_LEAST / len(shares))
            self.shares.copy_(shares / shares.sum())
            self.seen = []

    def to_words(self) -> str:
        """What was decided, for the report."""
        counted = ", ".join(f"{100 * share:.0f} %" for share in self.counted.tolist())
        text = f"weights of the sources at the end of training, by the mass that the plans took from them: {counted}"
        doubtful = [str(s + 1) for s, trust in enumerate(self.trust.tolist()) if trust < 1]
        if doubtful:
            text += f"; labels of source {', '.join(doubtful)} contradict their own neighbours"
        return text


CERTAIN = 20.0  # logit of a label that is known: another class costs 20 nats, and still a finite number


class TransportMethod(Method):
    r"""L = CE on the source + eta3 <P, C>, with P solved on the detached cost: the envelope theorem gives the gradient.

    With `global_plan` the minibatches of all processes are joined into one problem.
    """

    global_plan: bool = False
    joint: JointTransportLoss
    proportions: TargetProportions | None
    sources: SourceWeights | None
    progress = 0.0
    origin: Tensor | None = None

    def __init__(self, options: Any, *, features: int, classes: int) -> None:
        super().__init__(options, features=features, classes=classes)
        self.eta3 = options.eta3
        self.proportions = None
        self.sources = None

    def make_joint(self, tau: float, reference: str = "product", **marginals: Any) -> JointTransportLoss:
        """The loss with these options; its scale is updated once per step, identically on all processes."""
        options = self.options
        scale = None if options.scale is None else float(options.scale_at)
        joint = JointTransportLoss(
            options.eta1, options.eta2, tau, options.epsilon, reference, scale=scale, engine=options.engine, **marginals
        )
        if joint.scale is not None:
            joint.scale.deferred = True
        return joint

    def use_label_loss(self, label_loss: str) -> None:
        super().use_label_loss(label_loss)
        self.joint.label_loss = label_loss

    def end_step(self) -> None:
        if self.joint.scale is not None:
            self.joint.scale.settle(mean_over_processes)
        if self.proportions is not None:
            self.proportions.settle(self.progress, mean_over_processes)
        if self.sources is not None:
            self.sources.settle(mean_over_processes)

    def source_weights(self, labels: Tensor) -> Tensor | None:
        """The weights of source samples of these classes and sources; None: equal weights."""
        weights = None if self.proportions is None else self.proportions.weights(labels)
        if self.sources is None or self.origin is None:
            return weights
        return self.sources(self.origin) if weights is None else weights * self.sources(self.origin)

    def decisions(self) -> list[str]:
        return [part.to_words() for part in (self.proportions, self.sources) if part is not None]

    def transport(self, features_s: Tensor, labels_s: Tensor, features_t: Tensor, logits_t: Tensor) -> JointLoss:
        """The transport term of two minibatches: `joint` with equal weights of the source samples."""
        out: JointLoss = self.joint(features_s, labels_s, features_t, logits_t)
        return out

    def terms(self, network: Network, batch: Batch) -> Terms:
        features_s, logits_s = network(batch.source)
        features_t, logits_t, known = self._target(network, batch)
        labels, self.progress, self.origin = batch.labels, batch.progress, batch.origin
        if self.global_plan:
            features_s, features_t, logits_t = gather_rows(features_s), gather_rows(features_t), gather_rows(logits_t)
            with torch.no_grad():
                labels = gather_rows(labels)
                self.origin = None if self.origin is None else gather_rows(self.origin)
        out = self.transport(features_s, labels, features_t, logits_t)
        weights = self.source_weights(labels)
        if getattr(self.options, "source_loss", "uniform") == "plan":
            weights = moved_from(out.plan)
        own = None if weights is None else weights[own_rows(len(batch.labels), self.global_plan)]
        source = source_term(logits_s, batch.labels, own, self.label_loss)
        ramp = getattr(self.options, "eta3_ramp", 0.0)
        eta3 = self.eta3 * min(1.0, batch.progress / ramp) if ramp else self.eta3
        if self.sources is not None and self.origin is not None:
            self.sources.observe(out.plan, self.origin)
        losses = {"source": source, "transport": eta3 * out.loss, **known}
        plan = out.plan[:, : len(batch.target)] if known and not self.global_plan else out.plan
        return Terms(losses, plan=plan, value=out.value.detach())

    def _target(self, network: Network, batch: Batch) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """Embeddings and outputs of the target, those whose labels are known last; and the loss of these.

        In the plan their label is certain: it replaces the prediction.
        """
        if batch.labelled is None:
            return *network(batch.target), {}
        x, labels = batch.labelled
        features, logits = network(torch.cat([batch.target, x]))
        unknown = len(batch.target)
        loss = source_term(logits[unknown:], labels, label_loss=self.label_loss)
        certain = labels
        if self.label_loss == "cross-entropy":
            certain = CERTAIN * torch.nn.functional.one_hot(labels, logits.shape[1])
        return features, torch.cat([logits[:unknown], certain.to(logits.dtype)]), {"labelled": loss}


def moved_from(plan: Tensor) -> Tensor | None:
    """The weight of each source sample by its share of the moved mass, 1 on average; None if no mass is moved.

    Naram, Hellström, Wang, Jörnsten, Durisi: Theoretical performance guarantees for partial domain adaptation via
    partial optimal transport (2025).

    >>> moved_from(torch.tensor([[0.3, 0.0], [0.0, 0.1]]))
    tensor([1.5000, 0.5000])
    """
    rows = plan.sum(1)
    total = rows.sum()
    return len(rows) * rows / total if bool(total > 0) else None


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
