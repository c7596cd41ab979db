r"""
Growth, read from the masses of an unbalanced plan
==================================================

Between two snapshots of a population some groups grow and some die out. A balanced plan
explains unequal groups by moving points from one to the other. If only the second
snapshot is met exactly, `tau=(t, inf)`, the mass that leaves a point of the first may
differ from what it has, and the ratio is its growth. The cost "wfr", :math:`-\log
\cos^2` of the distance, makes points further apart than :math:`\pi/2` unreachable: mass
is then created where it is needed instead of moved there.
"""

import math

import matplotlib.pyplot as plt
import torch

import jumbot

draw = torch.Generator().manual_seed(0)
centres = torch.tensor([[0.0, 0.0], [0.0, 1.8], [0.0, 3.6]])


def snapshot(counts, shift):
    """Three groups of so many points, moved to the right."""
    groups = torch.repeat_interleave(torch.arange(3), torch.tensor(counts))
    points = centres[groups] + torch.tensor([shift, 0.0])
    points += 0.15 * torch.randn(len(groups), 2, generator=draw)
    return points, groups


before, group = snapshot([100, 100, 100], 0.0)
after, group_after = snapshot([180, 100, 20], 0.6)
true = torch.tensor([1.8, 1.0, 0.2])

# %%
# `couple(..., return_mass=True)` also returns the growth of each pair: what a
# model of the velocity and of the growth rate trains on. Pairs are drawn by their mass,
# so points that grow are drawn more often, and the growth of a group is the
# harmonic mean over its pairs.

setting = {"epsilon": 0.02, "cost": "wfr", "seed": 0, "return_index": True}
settings = {
    "balanced": {"epsilon": 0.02, "seed": 0, "return_index": True},
    "tau = (1, inf), wfr": {**setting, "tau": (1.0, math.inf)},
    "tau = (.05, inf), wfr": {**setting, "tau": (0.05, math.inf)},
}
print(f"{'':24s} growth of the three groups   pairs within their group")
found = {}
for name, options in settings.items():
    x0, x1, i, j, growth = jumbot.couple(
        before, after, draw=3000, return_mass=True, **options
    )
    means = [1 / float((1 / growth[group[i] == k]).mean()) for k in range(3)]
    kept = float((group[i] == group_after[j]).double().mean())
    found[name] = x0, x1, growth
    shown = " ".join(f"{mean:8.2f}" for mean in means)
    print(f"{name:24s} {shown} {kept:20.0%}")
print(f"{'truth':24s} {true[0]:8.2f} {true[1]:8.2f} {true[2]:8.2f} {1:20.0%}")

# %%
# In the balanced plan nothing grows, and points move from group to group. With a small
# penalty, single points take over the growth of their neighbours: the groups are
# correct, the points are not.

figure, axes = plt.subplots(1, 3, figsize=(11, 4), sharey=True)
for axis, (name, (x0, x1, growth)) in zip(axes, found.items(), strict=True):
    for a, b in zip(x0[:300], x1[:300], strict=True):
        axis.plot(*torch.stack([a, b]).T, color="0.8", lw=0.5, zorder=0)
    axis.scatter(*after.T, s=6, color="0.6", label="after")
    dots = axis.scatter(*x0.T, s=8, c=growth, cmap="coolwarm", vmin=0, vmax=2)
    axis.set_title(name, fontsize=9)
figure.colorbar(dots, ax=axes, label="growth of a point before")
