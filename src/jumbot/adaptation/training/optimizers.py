"""The optimisers of a run and their learning rates."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from jumbot.adaptation.networks.build import Bottleneck
from jumbot.adaptation.settings import Training
from jumbot.methods.base import Method
from jumbot.methods.network import Network


def make_optimizers(network: Network, method: Method, training: Training) -> dict[str, torch.optim.Optimizer]:
    """That of the network, and that of the method's own layers where it has one; by their names in checkpoints."""
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
    optimizer: torch.optim.Optimizer = (
        torch.optim.Adam(groups, lr=rate)
        if training.optimizer == "adam"
        else torch.optim.SGD(groups, lr=rate, momentum=0.9, nesterov=True, weight_decay=decay)
    )
    return {"optimizer": optimizer} | ({"own_optimizer": own} if own is not None else {})


def rate_factor(training: Training, step: int, steps: int) -> float:
    """What the learning rate is multiplied by at `step` of `steps` of the adaptation (negative: on the source alone).

    >>> round(rate_factor(Training(schedule="inverse"), 500, 500), 3)
    0.166
    """
    if training.schedule != "inverse" or step < 0:
        return 1.0
    return (1 + 10 * step / (training.schedule_steps or steps)) ** -0.75
