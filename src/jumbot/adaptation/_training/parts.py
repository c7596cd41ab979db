"""The parts of a training: a network and a method, made from the seed of a run, and their optimisers."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import nn

from jumbot._settings.training import Training
from jumbot.adaptation._config import RunConfig
from jumbot.adaptation._evaluation.task import Task
from jumbot.adaptation._networks.build import Bottleneck, NetworkSpec, make_network
from jumbot.adaptation._networks.stems import learn_directions, project
from jumbot.data._domain import Domain
from jumbot.methods import Method, make_method
from jumbot.methods.network import Network


@dataclass(frozen=True)
class TrainingData:
    """The domains as input of networks, and what is predicted."""

    source: Domain
    target: Domain
    task: Task
    labelled: Domain | None = None
    """Target samples with known labels, which are used in training."""

    def in_directions(self, rank: int) -> TrainingData:
        """Wide rows reduced to so many directions, which are learned from what is labelled."""
        stem = learn_directions(self.source, rank, self.labelled)
        labelled = None if self.labelled is None else project(stem, self.labelled)
        return replace(self, source=project(stem, self.source), target=project(stem, self.target), labelled=labelled)


class NetworkInput(NamedTuple):
    """The input of a network: the shape and the type of a sample, and an existing backbone."""

    shape: tuple[int, ...]
    dtype: torch.dtype = torch.float32
    module: nn.Module | None = None
    kind: str = "user"
    """The name of that backbone."""


def make_parts(
    config: RunConfig, data: TrainingData, seen: NetworkInput | None = None
) -> tuple[Network, NetworkSpec, Method]:
    """The network, what describes it, and the method; by default the network gets the source's samples unchanged."""
    source, task = data.source, data.task
    shape, dtype, module, kind = NetworkInput(source.shape) if seen is None else seen
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.training.seed)
        network, spec = make_network(
            config.network, shape, task.outputs, module, kind, dtype, source, data.labelled, data.target
        )
        method = make_method(
            config.method,
            config.options,
            features=network.features,
            classes=network.classes,
            label_loss=task.label_loss,
        )
    return network, spec, method


def make_optimizers(network: Network, method: Method, training: Training) -> dict[str, torch.optim.Optimizer]:
    """The optimisers of the network and, if needed, of the method's own layers, by their names in checkpoints."""
    pretrained: list[nn.Parameter] = []
    if isinstance(network.backbone, Bottleneck):
        pretrained = [p for p in network.backbone.pretrained.parameters() if p.requires_grad]
    own = method.own_optimizer()
    apart = {id(p) for group in own.param_groups for p in group["params"]} if own is not None else set()
    apart |= {id(p) for p in pretrained}
    new = [p for p in (*network.parameters(), *method.parameters()) if p.requires_grad and id(p) not in apart]
    groups: list[dict[str, Any]] = [{"params": new, "share": 1.0}]
    if pretrained:
        groups.append({"params": pretrained, "share": training.backbone_rate})
    rate, decay = training.learning_rate, training.weight_decay
    optimizer: torch.optim.Optimizer
    if training.optimizer == "sgd":
        optimizer = torch.optim.SGD(groups, lr=rate, momentum=0.9, nesterov=True, weight_decay=decay)
    elif training.optimizer == "adamw":
        optimizer = torch.optim.AdamW(groups, lr=rate, weight_decay=decay)
    else:
        optimizer = torch.optim.Adam(groups, lr=rate, weight_decay=decay)
    return {"optimizer": optimizer} | ({"own_optimizer": own} if own is not None else {})


def rate_factor(training: Training, step: int, steps: int) -> float:
    """The factor of the learning rate at `step` of `steps` of the adaptation (negative: on the source alone).

    >>> round(rate_factor(Training(schedule="inverse"), 500, 500), 3)
    0.166
    >>> [round(rate_factor(Training(schedule="flat-cosine"), step, 100), 2) for step in (0, 50, 75, 100)]
    [1.0, 1.0, 0.5, 0.0]
    """
    if training.schedule == "constant" or step < 0:
        return 1.0
    share = step / (training.schedule_steps or steps)
    if training.schedule == "inverse":
        return (1 + 10 * share) ** -0.75
    return 0.5 + 0.5 * math.cos(math.pi * min(max(2 * share - 1, 0.0), 1.0))
