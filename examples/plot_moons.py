r"""
Eight Gaussians to two moons: which pairs make a flow straight
==============================================================

A flow that is trained on independent pairs bends; trained on pairs of a transport plan
it is nearly straight, and a few steps follow it. How good the pairs are also depends on
how many points are coupled at once; in the plane 256 are often enough, in more
dimensions they represent both clouds poorly. `jumbot.CoupledLoader` couples larger
batches and yields them in minibatches. By default a worker process solves while the
model trains; the documentation build cannot start one, so `workers=0` here.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch.utils.data import DataLoader

import jumbot
from jumbot.compat import ot

draw = torch.Generator().manual_seed(0)


def gaussians(n):
    """Eight Gaussians on a circle."""
    angle = torch.randint(8, (n,), generator=draw) * torch.pi / 4
    centres = 4 * torch.stack([angle.cos(), angle.sin()], 1)
    return centres + 0.3 * torch.randn(n, 2, generator=draw)


def moons(n):
    """Two half circles, one in the other's arms."""
    angle, upper = torch.pi * torch.rand(n, generator=draw), torch.arange(n) % 2 == 0
    x = torch.where(upper, angle.cos(), 1 - angle.cos())
    y = torch.where(upper, angle.sin(), 0.5 - angle.sin())
    points = 3 * torch.stack([x - 0.5, y - 0.25], 1)
    return points + 0.1 * torch.randn(n, 2, generator=draw)


# %%
# The same data, four ways to pair it. POT's exact plan of each training batch is what
# torchcfm draws from; the last way couples 1,024 points at once.

STEPS, BATCH = 300, 256


def independent():
    for _ in range(STEPS):
        yield gaussians(BATCH), moons(BATCH)


def by_pot():
    import ot as pot

    weights = pot.unif(BATCH)
    rng = np.random.default_rng(0)
    for x0, x1 in independent():
        cost = (torch.cdist(x0, x1) ** 2).double().numpy()
        plan = pot.emd(weights, weights, cost).ravel()
        pairs = rng.choice(plan.size, BATCH, p=plan / plan.sum())
        yield x0[pairs // BATCH], x1[pairs % BATCH]


def by_couple():
    for x0, x1 in independent():
        yield jumbot.couple(x0, x1)


def by_loader(batch=1024):
    loaders = [
        DataLoader(cloud(STEPS * BATCH), batch_size=BATCH)
        for cloud in (gaussians, moons)
    ]
    yield from jumbot.CoupledLoader(*loaders, batch=batch, minibatch=BATCH, workers=0)


# %%
# The model and the loop are the usual ones; the time for the pairs is measured
# separately.


def train(pairs):
    torch.manual_seed(0)
    velocity = torch.nn.Sequential(
        torch.nn.Linear(3, 64),
        torch.nn.SiLU(),
        torch.nn.Linear(64, 64),
        torch.nn.SiLU(),
        torch.nn.Linear(64, 2),
    )
    optimizer = torch.optim.Adam(velocity.parameters(), 5e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    waited, start = 0.0, time.perf_counter()
    for x0, x1 in pairs:
        waited += time.perf_counter() - start
        t = torch.rand(len(x0), 1, generator=draw)
        at = torch.cat([(1 - t) * x0 + t * x1, t], dim=1)
        loss = (velocity(at) - (x1 - x0)).square().sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        start = time.perf_counter()
    return velocity, 1e3 * waited / STEPS


@torch.no_grad()
def follow(velocity, x, steps):
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
    return float(jumbot.sinkhorn_divergence(points, moons(len(points)), epsilon=0.05))


ways = {
    "independent": independent,
    "POT, batches of 256": by_pot,
    "couple, batches of 256": by_couple,
    "CoupledLoader, 1,024": by_loader,
}
start, paths = gaussians(500), {}
print(f"{'pairs':24s} longer than straight   two steps   fifty   ms per batch")
for name, way in ways.items():
    model, waited = train(way())
    paths[name] = follow(model, start, 50)
    two = distance(follow(model, start, 2)[-1])
    fifty = distance(paths[name][-1])
    row = f"{excess(paths[name]):18.2f} % {two:11.3f} {fifty:7.3f}"
    print(f"{name:24s} {row} {waited:14.1f}")

# %%
# POT and `couple` find the same plan; drawing from it with replacement, as torchcfm
# does, leaves some points out of each batch. The larger batch takes longer per pair, so
# it should run in a worker.

figure, axes = plt.subplots(1, 4, figsize=(12, 3.2), sharex=True, sharey=True)
for axis, (name, path) in zip(axes, paths.items(), strict=True):
    axis.plot(*path[:, :120].permute(2, 0, 1), color="0.75", lw=0.6)
    axis.scatter(*path[0].T, s=3, label="start")
    axis.scatter(*path[-1].T, s=3, label="end")
    axis.set_title(name, fontsize=9)
    axis.set_aspect("equal")
axes[0].legend(loc="lower left", fontsize=7)
figure.tight_layout()

# %%
# Code that calls POT for its pairs need not change: `from jumbot.compat import ot`
# answers the same call, with a certificate in its log.

x0, x1 = gaussians(BATCH), moons(BATCH)
cost = (torch.cdist(x0, x1) ** 2).double().numpy()
plan, log = ot.emd(ot.unif(BATCH), ot.unif(BATCH), cost, log=True)
print(log["certificate"].verdict)
