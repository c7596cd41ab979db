r"""
An outlier that moves away
==========================

Ten points, and the same ten points with an additional outlier :math:`z` of weight
:math:`1 - \zeta = 1/11`. Exact transport must move the outlier's mass at any cost, so
its value grows without bound as the outlier moves away. The unbalanced value reaches a
plateau. Lemma 1.1 of Fatras et al. (2021) bounds it:

.. math:: \mathrm{OT}^\tau\bigl(\zeta \alpha + (1 - \zeta)\, \delta_z,\; \beta\bigr)
          \;\le\; \zeta\, \mathrm{OT}^\tau(\alpha, \beta)
          + 2 \tau (1 - \zeta) \bigl(1 - e^{-m(z) / 2 \tau}\bigr),

where :math:`m(z) = \int C(z, y)\, \mathrm d \beta(y)` is the mean cost from the outlier
to the points.
"""

import matplotlib.pyplot as plt
import numpy as np

import jumbot

random = np.random.default_rng(0)
y = 0.5 * random.standard_normal((10, 2))
distances = np.linspace(1.0, 8.0, 29)
outliers = np.stack([distances, np.zeros_like(distances)], axis=-1)

# One problem for each position of the outlier: a batch of cost matrices, 11 x 10.
clean = np.broadcast_to(y, (len(distances), 10, 2))
tainted = np.concatenate([clean, outliers[:, None]], axis=1)
costs = ((tainted[:, :, None] - y) ** 2).sum(-1)

balanced = jumbot.solve(costs, epsilon=0)
unbalanced = {tau: jumbot.solve(costs, epsilon=0, tau=tau) for tau in (0.5, 2.0)}


def lemma(tau):
    """The bound of Lemma 1.1; alpha = beta here, so its first term is zero."""
    mean_cost = costs[:, -1].mean(-1)
    return 2 * tau / 11 * (1 - np.exp(-mean_cost / (2 * tau)))


figure, (left, right) = plt.subplots(
    1, 2, figsize=(10, 4), layout="constrained", width_ratios=[2, 3]
)
left.scatter(*y.T, color="#0072b2", label="the points")
left.scatter(*outliers[::7].T, color="#d55e00", marker="x", label="the outlier, moving")
left.set_aspect("equal")
left.set_ylim(-2.5, 2.5)
left.legend(loc="upper right", frameon=False)
left.set_title("two sets that differ by one point")

right.plot(distances, balanced.value, color="black", label="exact transport")
for tau, colour in ((0.5, "#0072b2"), (2.0, "#009e73")):
    value, label = unbalanced[tau].value, rf"$\tau = {tau:g}$"
    right.plot(distances, value, color=colour, label=f"unbalanced, {label}")
    right.plot(distances, lemma(tau), "--", color=colour, label=f"Lemma 1.1, {label}")
right.set_ylim(0, 1)
right.set_xlabel("distance of the outlier")
right.set_ylabel("value")
right.set_title("cost of the outlier")
right.legend(frameon=False)
plt.show()

# %%
# The bound holds at every distance. Exact transport soon leaves the plotted range:

for tau, solution in unbalanced.items():
    holds = bool((solution.value <= lemma(tau) + 1e-9).all())
    print(f"tau {tau:g}: bound holds: {holds}, plateau {solution.value[-1]:.3f}")
print(f"exact transport at distance {distances[-1]:g}: {balanced.value[-1]:.3f}")
