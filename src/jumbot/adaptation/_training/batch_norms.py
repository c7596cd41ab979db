"""Batch norms at the end of training: their means and deviations, re-estimated on the target."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from jumbot.data._domain import Domain
from jumbot.errors import ArgumentError

_ROWS = 500  # samples in one forward pass


def batch_norms(network: nn.Module) -> list[nn.modules.batchnorm._BatchNorm]:
    """The layers of a network with running statistics."""
    found = (layer for layer in network.modules() if isinstance(layer, nn.modules.batchnorm._BatchNorm))
    return [layer for layer in found if layer.track_running_stats]


def check_has_batch_norms(network: nn.Module) -> None:
    """Refuse a network without batch norms."""
    if not batch_norms(network):
        raise ArgumentError("batch_norm: must be 'running' for a network without batch norms, got 'target'.")


@torch.no_grad()
def estimate_batch_norms(network: nn.Module, domain: Domain, device: torch.device | str, seed: int = 0) -> None:
    """Give the batch norms of `network` the mean statistics over minibatches of all samples of `domain`, in place.

    The minibatches are drawn at random, because their deviations do not include the differences between their means.
    Everything except the batch norms is in evaluation mode, and all modes are restored.
    """
    norms = batch_norms(network)
    modes = {layer: layer.training for layer in network.modules()}
    momenta = [norm.momentum for norm in norms]
    network.eval()
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the plain mean over all minibatches
        norm.train()
    rows = np.random.default_rng((seed, 11)).permutation(len(domain))
    try:
        for part in np.array_split(rows, -(-len(rows) // _ROWS)):
            x = domain.samples.batch(np.sort(part)).to(device)
            views = x.ndim == 5 and getattr(domain.samples, "kind", "image") == "image"
            network(x.flatten(0, 1) if views else x)
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
        for layer, training in modes.items():
            layer.training = training
