"""What a training begins with: a network and a method, made from the seed of a run."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from jumbot.adaptation._config import RunConfig
from jumbot.adaptation._evaluation.task import Task
from jumbot.adaptation._networks.build import make_network
from jumbot.data._domain import Domain
from jumbot.methods import Method, make_method
from jumbot.methods.network import Network


def make_parts(
    config: RunConfig,
    task: Task,
    source: Domain,
    target: Domain,
    labelled: Domain | None = None,
    shape: tuple[int, ...] | None = None,
    module: nn.Module | None = None,
    kind: str = "user",
    dtype: torch.dtype = torch.float32,
) -> tuple[Network, dict[str, Any], Method]:
    """The network, what describes it, and the method; `shape` is that of a source sample where nothing else is given.

    The other arguments are those of `make_network`.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.training.seed)
        network, spec = make_network(
            config.network, shape or source.shape, task.outputs, module, kind, dtype, source, labelled, target
        )
        method = make_method(
            config.method,
            config.options,
            features=network.features,
            classes=network.classes,
            label_loss=task.label_loss,
        )
    return network, spec, method
