r"""
A gradient flow in plain torch
==============================

Points :math:`x` flow down the gradient of the Sinkhorn divergence to a target set
:math:`y`. The loss is an ordinary differentiable tensor, so the flow is an ordinary
loop. The gradient is that of the optimum itself, not of the iterations that found it.
"""

import math

import matplotlib.pyplot as plt
import torch

import jumbot

generator = torch.Generator().manual_seed(0)
angle = 2 * math.pi * torch.rand(200, generator=generator)
ring = torch.stack([angle.cos(), angle.sin()], dim=-1)
target = ring + 0.05 * torch.randn(200, 2, generator=generator)
start = 0.25 * torch.randn(200, 2, generator=generator) + torch.tensor([-1.5, 0.0])

# %%
# An Euler step moves each point against its own gradient. Each point weighs 1/200, so
# the gradient is multiplied by 200.

snapshots = {}
x = start.clone().requires_grad_()
for step in range(61):
    if step in (0, 5, 15, 60):
        snapshots[step] = x.detach().clone()
    loss = jumbot.sinkhorn_divergence(x, target, epsilon=0.05)
    (gradient,) = torch.autograd.grad(loss, x)
    x = (x - 0.1 * len(x) * gradient).detach().requires_grad_()

figure, panels = plt.subplots(
    1, len(snapshots), figsize=(10, 2.8), layout="constrained", sharex=True, sharey=True
)
for panel, (step, points) in zip(panels, snapshots.items(), strict=True):
    panel.scatter(*target.T, s=6, color="#bbbbbb")
    panel.scatter(*points.T, s=6, color="#0072b2")
    value = float(jumbot.sinkhorn_divergence(points, target, epsilon=0.05))
    panel.set_title(f"step {step}, divergence {value:.2g}", fontsize=10)
    panel.set_aspect("equal")
    panel.set_xticks([])
    panel.set_yticks([])
plt.show()
