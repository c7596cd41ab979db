r"""
Two clusters of unequal size
============================

Ten source points, five in each of two clusters. Ten target points, three in one cluster
and seven in the other. The plan minimises

.. math:: \langle C, P \rangle + \tau\, \mathrm{KL}(P \mathbf 1 \mid a)
          + \tau\, \mathrm{KL}(P^\top \mathbf 1 \mid b), \qquad C_{ij} = |x_i - y_j|^2 .

Exact transport (:math:`\tau = \infty`) must use every point, so a fifth of the mass has
to cross from one cluster to the other: if the clusters are classes, these are wrong
labels. A finite :math:`\tau` is the penalty for leaving mass behind. As it decreases,
the mass that crosses vanishes first, because it costs most; the mass inside the
clusters follows later.
"""

import math

import matplotlib.pyplot as plt
import numpy as np

import jumbot
from jumbot.report import draw_plan

rng = np.random.default_rng(0)
x_cluster, y_cluster = np.repeat([0, 1], [5, 5]), np.repeat([0, 1], [3, 7])
x = np.stack([np.zeros(10), 1.0 - 2 * x_cluster], -1) + rng.normal(
    scale=0.22, size=(10, 2)
)
y = np.stack([np.ones(10), 1.0 - 2 * y_cluster], -1) + rng.normal(
    scale=0.22, size=(10, 2)
)
cost = ((x[:, None] - y) ** 2).sum(-1)

taus = [math.inf, 10.0, 2.0, 0.5]
solutions = [jumbot.solve(cost, epsilon=0, tau=tau) for tau in taus]

figure, axes = plt.subplots(1, 4, figsize=(11, 3), layout="constrained")
for ax, tau, solution in zip(axes, taus, solutions, strict=True):
    # a full line carries the weight of one point, in every panel
    draw_plan(ax, x, y, solution.plan, x_cluster, y_cluster, unit=0.1)
    ax.set_title(rf"$\tau$ = {tau:g}, mass {float(solution.mass):.2f}")
plt.show()

# %%
# The plans are exact, ``epsilon=0``, and each is certified: the relative gap bounds how
# far the value can be from the optimum.

crossing = x_cluster[:, None] != y_cluster
for tau, solution in zip(taus, solutions, strict=True):
    mass, between = float(solution.mass), float(solution.plan[crossing].sum())
    print(
        f"tau {tau:4g}: mass {mass:.4f}, of it between clusters {between:.4f}", end=""
    )
    value, gap = float(solution.value), float(solution.relative_gap)
    print(f", value {value:.4f}, relative gap {gap:.0e}")
