"""A classifier that sees the source alone, to compare with."""

from __future__ import annotations

from dataclasses import replace

import torch

from jumbot.adaptation.config import RunConfig
from jumbot.adaptation.networks.build import make_network
from jumbot.adaptation.task import Task
from jumbot.adaptation.training.loop import Trainer
from jumbot.data.domain import Domain
from jumbot.methods import SOURCE_ONLY, make_method, options_class
from jumbot.methods.network import Network


def train_source_only(source: Domain, target: Domain, config: RunConfig, task: Task) -> Network:
    """A network of rows trained by source-only with the settings and the seed of a run."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.training.seed)
        network, _ = make_network(config.network, source.shape, task.outputs, source=source)
        method = make_method(
            SOURCE_ONLY, options_class(SOURCE_ONLY)(), features=network.features, classes=network.classes,
            label_loss=task.label_loss,
        )  # fmt: skip
    training = replace(config.training, select="last", evaluate_every=0, trackers=(), tensorboard=False)
    Trainer(source, target.unlabelled(), network, method, training, task=task).fit()
    return network.cpu().eval()
