"""Evaluations during training: label-free scores and, for the record only, the accuracy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jumbot._base.progress import progress
from jumbot._settings.training import Training
from jumbot.adaptation._evaluation.measures import smoothness
from jumbot.adaptation._evaluation.modularity import nearest, rows_of
from jumbot.adaptation._evaluation.selection import scores
from jumbot.adaptation._evaluation.task import Task
from jumbot.data._domain import Domain, drawn_rows
from jumbot.loss import JointTransportLoss
from jumbot.methods.base import Method, TargetOutputs
from jumbot.methods.network import Network
from jumbot.minibatch._sampling import ShuffledSampler, StratifiedSampler

_ROWS = 500  # samples in one forward pass
_SCORED = 2000  # target samples for the label-free scores
_BATCHES = 5  # minibatches behind the transport score


@dataclass(frozen=True)
class Watch:
    """Data for the records only: labels of target minibatches, a labelled set to evaluate on, held-out source."""

    target_labels: np.ndarray | None = None
    evaluated: Domain | None = None
    validation: Domain | None = None


class Monitor:
    """Evaluates the network between steps, without changing it."""

    def __init__(
        self,
        network: Network,
        method: Method,
        source: Domain,
        target: Domain,
        task: Task,
        training: Training,
        watch: Watch,
        device: torch.device,
    ) -> None:
        self.network, self.method, self.task, self.device = network, method, task, device
        self.labels = task.labels(source)
        self.source, self.target, self.training, self.watch = source, target, training, watch
        self.neighbours: np.ndarray = np.empty((0, 0), np.int64)

    def evaluate(self, whole: bool) -> dict[str, Any]:
        """Scores, and accuracies if there are labels; of `evaluate_samples` samples unless `whole`."""
        limit = None if whole else self.training.evaluate_samples
        some = _sample(self.target, min(_SCORED, limit or _SCORED), self.training.seed)
        logits = logits_of(self.network, some, self.device)
        validation = self.watch.validation
        held_out = None if validation is None else self._figures(validation)[self.task.metric]
        record: dict[str, Any] = {"scores": self._scores(logits, some, held_out)}
        if (evaluated := self.watch.evaluated) is not None:
            if limit is not None:
                evaluated = _sample(evaluated, limit, self.training.seed)
            found = self._figures(evaluated)
            kept = ("accuracy", "mean_class_accuracy", "per_class", "rmse", "mae", "r2", "n")
            record |= {name: found[name] for name in kept if name in found}
        return record

    def _figures(self, domain: Domain) -> dict[str, Any]:
        logits = logits_of(self.network, domain, self.device)
        return self.task.evaluate(logits, domain).to_json()

    def _scores(self, logits: Tensor, some: Domain, held_out: float | None) -> dict[str, float]:
        """Every label-free score that fits the task."""
        if self.task.name == "classification":
            return scores(logits.softmax(-1), held_out, self._transport_value())
        found = {} if len(some) < 2 else {"smoothness": smoothness(logits, self._neighbours(some))}
        given = {"source_validation": held_out, "transport": self._transport_value()}
        return found | {name: value for name, value in given.items() if value is not None}

    def _neighbours(self, some: Domain) -> np.ndarray:
        """The neighbours of target samples; found once for each number of samples."""
        if len(self.neighbours) != len(some):
            self.neighbours = nearest(rows_of(some))
        return self.neighbours

    def target_outputs(self) -> TargetOutputs:
        """Embeddings and logits of all target samples."""
        return TargetOutputs(*outputs(self.network, self.target, self.device))

    def _transport_value(self) -> float | None:
        """The mean full value of the method's own transport problem, on the same minibatches at each evaluation."""
        joint = getattr(self.method, "joint", None)
        if not isinstance(joint, JointTransportLoss):
            return None
        size, seed = min(self.training.batch_size, 200), self.training.seed
        sources = (
            ShuffledSampler(len(self.source), size, seed, stream=8)
            if self.source.labels is None
            else StratifiedSampler(self.source.labels, size, seed)
        )
        targets = ShuffledSampler(len(self.target), size, seed)
        values = []
        training = joint.training
        joint.eval()  # an evaluation does not update the running scale of the embedding
        for i in range(_BATCHES):
            rows = sources.batch(i)
            z_s, _ = outputs(self.network, self.source.subset(rows), self.device)
            z_t, logits = outputs(self.network, self.target.subset(targets.batch(i)), self.device)
            values.append(float(joint(z_s, torch.from_numpy(self.labels[rows]), z_t, logits).value))
        joint.train(training)
        return float(np.mean(values))


def outputs(network: Network, domain: Domain, device: torch.device | str | None = None) -> tuple[Tensor, Tensor]:
    """Embeddings and logits of all samples of a domain, in evaluation mode, on the CPU.

    If a sample has several views (ten crops), its embedding is their mean, and its logits the logarithm of the mean
    of their probabilities.
    """
    z, y = _gathered(_outputs(network, domain, device), len(domain))
    return z, y


def logits_of(network: Network, domain: Domain, device: torch.device | str | None = None) -> Tensor:
    """The logits alone: the embeddings of a million samples would take a gigabyte."""
    found = _gathered(((y,) for _, y in _outputs(network, domain, device)), len(domain))
    return found[0] if found else torch.empty(0)


def _gathered(parts: Iterable[tuple[Tensor, ...]], count: int) -> list[Tensor]:
    """Rows, part by part, each written to its place.

    A list of small tensors, each made between large ones that are freed, would leave holes in the memory.
    """
    found, start = list[Tensor](), 0
    for part in parts:
        found = found or [one.new_empty(count, *one.shape[1:]) for one in part]
        for whole, one in zip(found, part, strict=True):
            whole[start : start + len(one)] = one
        start += len(part[0])
    return found


def _outputs(network: Network, domain: Domain, device: torch.device | str | None) -> Iterator[tuple[Tensor, Tensor]]:
    device = device or next(network.parameters()).device
    training = network.training
    network.eval()
    try:
        with progress(len(domain), f"predictions of {domain.name}") as advance:
            for start in range(0, len(domain), _ROWS):
                x = domain.samples.batch(np.arange(start, min(start + _ROWS, len(domain)))).to(device)
                yield _forward(network, x, getattr(domain.samples, "kind", "image") == "image")
                advance(len(x))
    finally:
        network.train(training)


@torch.no_grad()
def _forward(network: Network, x: Tensor, images: bool) -> tuple[Tensor, Tensor]:
    if x.ndim == 5 and images:
        z, y = network(x.flatten(0, 1))
        z = z.unflatten(0, x.shape[:2]).mean(1)
        y = y.softmax(-1).unflatten(0, x.shape[:2]).mean(1).log()
    else:
        z, y = network(x)
    return z.float().cpu(), y.float().cpu()


def _sample(domain: Domain, limit: int, seed: int) -> Domain:
    """The same `limit` samples at each evaluation."""
    return domain if len(domain) <= limit else domain.subset(drawn_rows(len(domain), limit, (seed, 5)))
