r"""
Flow matching with transport couplings
======================================

Flow matching learns a velocity :math:`v(x, t)` that carries one cloud of points to
another: draw a pair :math:`(x_0, x_1)` and a time :math:`t`, and regress :math:`v` at
:math:`(1 - t)\, x_0 + t\, x_1` on :math:`x_1 - x_0`. The choice of the pairs is
free. Independent pairs cross, so their average bends the paths, and following them
takes many steps. `jumbot.couple` re-pairs each minibatch by its transport plan, and the
paths become straight.
"""

import matplotlib.pyplot as plt
import torch

import jumbot

draw = torch.Generator().manual_seed(0)


def clusters(n, at):
    """Points in two clusters, one above the other."""
    centres = torch.tensor([[at, 1.5], [at, -1.5]])
    which = torch.randint(2, (n,), generator=draw)
    return centres[which] + 0.3 * torch.randn(n, 2, generator=draw)


def source(n):
    return clusters(n, -2.0)


def clean(n):
    return clusters(n, 2.0)


def tainted(n):
    """The same cloud, one point in ten of it an outlier."""
    outliers = torch.tensor([7.0, 0.0]) + 0.3 * torch.randn(n, 2, generator=draw)
    return torch.where(torch.rand(n, 1, generator=draw) < 0.1, outliers, clean(n))


# %%
# The model is a small network, and the loop is the usual one. The coupling is one line.


def train(target, couple, steps=600, batch=128):
    """The velocity from the source to a target cloud, for one way of pairing."""
    torch.manual_seed(0)
    velocity = torch.nn.Sequential(
        torch.nn.Linear(3, 64),
        torch.nn.SiLU(),
        torch.nn.Linear(64, 64),
        torch.nn.SiLU(),
        torch.nn.Linear(64, 2),
    )
    optimizer = torch.optim.Adam(velocity.parameters(), 5e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        x0, x1 = couple(source(batch), target(batch))
        t = torch.rand(batch, 1, generator=draw)
        at = torch.cat([(1 - t) * x0 + t * x1, t], dim=1)
        loss = (velocity(at) - (x1 - x0)).square().sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return velocity


def independent(x0, x1):
    return x0, x1


def balanced(x0, x1):
    return jumbot.couple(x0, x1)


def unbalanced(x0, x1):
    return jumbot.couple(x0, x1, tau=8.0, generator=draw)


# %%
# A path is straight if it is as long as the distance between its ends. Straight paths
# can be followed in a single step. The last two columns are distances to the target
# (Sinkhorn divergences) of the points after one step and after fifty steps.


@torch.no_grad()
def follow(velocity, x, steps):
    """The paths from x, by Euler steps."""
    path = [x]
    for k in range(steps):
        t = torch.full((len(x), 1), k / steps)
        path.append(path[-1] + velocity(torch.cat([path[-1], t], dim=1)) / steps)
    return torch.stack(path)


def excess(path):
    """How much longer the paths are than straight ones, in percent, on average."""
    length = path.diff(dim=0).norm(dim=-1).sum(0)
    return float(100 * (length / (path[-1] - path[0]).norm(dim=-1) - 1).mean())


def distance(points):
    return float(jumbot.sinkhorn_divergence(points, clean(len(points)), epsilon=0.05))


start = source(400)
models = {
    "independent pairs": train(clean, independent),
    "balanced couplings": train(clean, balanced),
}
print("                     longer than straight   one step   fifty steps")
for name, model in models.items():
    path = follow(model, start, 50)
    one = distance(follow(model, start, 1)[-1])
    print(f"{name:20s} {excess(path):20.2f} % {one:10.3f} {distance(path[-1]):13.3f}")

# %%
# If every point must be matched, outliers in the target are learned with the rest. A
# finite `tau` leaves out what has no counterpart nearby: the mass that a point receives
# falls like :math:`e^{-C / \tau}`, so with `tau=8` the outliers, which cost 67 more
# than the clusters, hardly appear among the pairs.

models |= {
    "balanced, outliers": train(tainted, balanced),
    "unbalanced, outliers": train(tainted, unbalanced),
}
figure, panels = plt.subplots(
    2, 2, figsize=(9, 5.2), layout="constrained", sharex=True, sharey=True
)
for panel, (name, model) in zip(panels.flat, models.items(), strict=True):
    target = tainted(400) if "outliers" in name else clean(400)
    path = follow(model, start, 50)
    panel.scatter(*target.T, s=10, color="#bbbbbb", label="target")
    lines = path[:, :100].permute(2, 0, 1)
    panel.plot(*lines, color="#56b4e9", linewidth=0.5, alpha=0.7)
    panel.scatter(*start.T, s=4, color="#0072b2", label="source")
    panel.scatter(*path[-1].T, s=4, color="#d55e00", label="carried there")
    panel.set_title(name, fontsize=10)
    panel.set_aspect("equal")
    panel.set_xticks([])
    panel.set_yticks([])
panels[0, 0].legend(loc="center right", frameon=False, fontsize=8)
plt.show()

# %%
# The share of the points that end more than 1.5 from the centres of both clusters:

centres = torch.tensor([[2.0, 1.5], [2.0, -1.5]])
for name in ("balanced, outliers", "unbalanced, outliers"):
    end = follow(models[name], start, 50)[-1]
    lost = float((torch.cdist(end, centres).amin(1) > 1.5).double().mean())
    print(f"{name:20s} {100 * lost:5.1f} % lost, distance {distance(end):.3f}")
