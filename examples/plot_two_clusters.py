r"""
Two clusters of unequal size
============================

Ten source points, five in each of two clusters. Ten target points, three in one cluster
and seven in the other. The plan minimises

.. math:: \langle C, P \rangle + \tau\, \mathrm{KL}(P \mathbf 1 \mid a)
          + \tau\, \mathrm{KL}(P^\top \mathbf 1 \mid b), \qquad C_{ij} = |x_i - y_j|^2 .

Exact transport (:math:`\tau = \infty`) must use every point, so a fifth of the mass has
to cross from one cluster to the other: if the clusters are classes, these are wrong
labels. A finite :math:`\tau` is the price of leaving mass behind. As it falls, the mass
that crosses vanishes first, because it is the dearest; the mass inside the clusters
follows later.
"""

import math

import matplotlib.pyplot as plt

import jumbot
from jumbot.report.two_clusters import (
    draw_two_clusters,
    make_points,
    solve_two_clusters,
)

points = make_points()
results = solve_two_clusters(points, taus=[math.inf, 10.0, 2.0, 0.5])

figure = plt.figure(figsize=(10, 5.6), layout="constrained")
draw_two_clusters(figure, points, results)
plt.show()

# %%
# The plans are exact, ``epsilon=0``, and each is certified: the relative gap bounds how
# far the value can be from the optimum.

for result in results:
    mass, between = f"{result.mass:.4f}", f"{result.mass_between:.4f}"
    print(f"tau {result.tau:4g}: mass {mass}, of it between clusters {between}", end="")
    print(f", value {result.value:.4f}, relative gap {result.relative_gap:.0e}")

# %%
# Behind ``solve_two_clusters`` is one call to :func:`jumbot.solve` for each tau:

solution = jumbot.solve(points.cost, epsilon=0, tau=10.0)
print(f"mass between clusters {solution.plan[points.between].sum():.4f}")
