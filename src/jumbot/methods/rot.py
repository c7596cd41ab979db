"""ROT: adversarial alignment in which target samples that fit the source badly count less."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import spectral_norm

from jumbot.methods.adversarial import domain_losses, reverse
from jumbot.methods.base import Batch, Method, TargetOutputs, Terms, source_term
from jumbot.methods.network import Network, xavier
from jumbot.methods.options import ROTOptions


class ROT(Method):
    r"""min over the network and w, max over D:  CE - weight (E_s softplus(-D(z_s)) + E_t w softplus(D(z_t))).

    The critic D has three layers of spectral norm 1, and its own optimiser. The weights of all target samples lie in
    the chi-square ball {w >= 0, mean w = 1, mean (w - 1)^2 / 2 <= rho} and maximise sum w softplus(D); they are equal
    until the second update. For a minibatch without `target_index` they are those of the minibatch alone.

    Balaji, Chellappa, Feizi: Robust optimal transport with applications in generative modeling and domain adaptation
    (2020).
    """

    name = "rot"
    Options = ROTOptions
    refresh_every = 500
    weights: Tensor
    begun: Tensor

    def __init__(self, options: Any, *, features: int, classes: int) -> None:
        super().__init__(options, features=features, classes=classes)
        layers = nn.Linear(features, options.critic_width), nn.Linear(options.critic_width, options.critic_width)
        last = nn.Linear(options.critic_width, 1)
        for layer in (*layers, last):
            xavier(layer)
        self.critic = nn.Sequential(
            spectral_norm(layers[0]), nn.ReLU(), spectral_norm(layers[1]), nn.ReLU(), spectral_norm(last)
        )
        self.register_buffer("weights", torch.ones(0))
        self.register_buffer("begun", torch.tensor(False))

    def terms(self, network: Network, batch: Batch) -> Terms:
        features_s, logits_s = network(batch.source)
        features_t, _ = network(batch.target)
        adversary = (batch.step + 1) % self.options.critic_steps == 0
        features = torch.cat([features_s, features_t])
        scores = self.critic(reverse(features, 1.0) if adversary else features.detach())
        loss_s, loss_t = domain_losses(scores[: len(features_s)], scores[len(features_s) :])
        adversarial = loss_s.mean() + (self.of(batch, loss_t.detach()) * loss_t).mean()
        return Terms({"source": source_term(logits_s, batch.labels), "adversarial": self.options.weight * adversarial})

    def own_optimizer(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.critic.parameters(), lr=self.options.critic_rate)

    def of(self, batch: Batch, losses: Tensor) -> Tensor:
        """The weights of the target samples of a minibatch."""
        if batch.target_index is None:
            return robust_weights(losses, self.options.rho)
        return self.weights[batch.target_index] if len(self.weights) else torch.ones_like(losses)

    @torch.no_grad()
    def refresh(self, outputs: TargetOutputs) -> None:
        if self.begun:
            # evaluation mode does not run the power iterations of the spectral norms
            training = self.critic.training
            self.critic.eval()
            scores = self.critic(outputs.embeddings.to(self.weights)).squeeze(1)
            self.critic.train(training)
            self.weights = robust_weights(F.softplus(scores), self.options.rho)
        self.begun.fill_(True)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        # as many weights as there are target samples, which is known to the checkpoint alone
        if (saved := state_dict.get(f"{prefix}weights")) is not None:
            self.weights = self.weights.new_empty(saved.shape)
        super()._load_from_state_dict(state_dict, prefix, *rest)


def robust_weights(scores: Tensor, rho: float) -> Tensor:
    """argmax of sum w s over {w >= 0, mean w = 1, mean (w - 1)^2 / 2 <= rho}.

    w is the projection of s/lambda onto {w >= 0, mean w = 1}, with the least lambda that stays in the ball.

    >>> robust_weights(torch.tensor([0.0, 1.0, 2.0, 3.0]), rho=0.1)
    tensor([0.4000, 0.8000, 1.2000, 1.6000])
    """
    given = scores.cpu().double()  # bisection waits for the device at every step, and not every device has float64
    s = given - given.max()  # near 0 where the weight is, so that small lambda lose no digits
    spread = s.std(correction=0)
    if rho == 0 or spread <= 1e-12 * given.abs().max():
        return torch.ones_like(scores)
    # Where no weight is cut off at 0 this lambda is the answer, otherwise a smaller one is.
    largest = float(spread) / (2 * rho) ** 0.5
    low, high = -60.0, 0.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        inside = (_project(s / (largest * 2**middle)) - 1).square().mean() / 2 <= rho
        low, high = (low, middle) if inside else (middle, high)
    return _project(s / (largest * 2**high)).to(scores.dtype).to(scores.device)


def _project(x: Tensor) -> Tensor:
    """The nearest point of {w >= 0, mean w = 1}."""
    falling = x.sort(descending=True).values
    count = torch.arange(1, len(x) + 1, device=x.device)
    surplus = (falling.cumsum(0) - len(x)) / count
    return (x - surplus[(falling > surplus).sum() - 1]).clamp_min(0)
