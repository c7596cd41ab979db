"""`jumbot.gradient_flow`: each step against autograd, what it keeps, and what it writes."""

import math
import sys

import numpy as np
import pytest
import torch

import jumbot
from jumbot.cost import parse_cost
from jumbot.errors import MissingPackageError
from jumbot.minibatch._sampling import draw_subsets
from tests.refusals import refused

from .generators import clouds

TOL = 1e-12  # of each of the three problems behind a divergence
SETTINGS = {
    "kl": {"tau": 0.7},
    "balanced": {},
    "tv": {"tau": 0.7, "divergence": "tv"},
    "chi2": {"tau": 0.7, "divergence": "chi2"},
}


def quartic(x, y):
    return ((x[..., :, None, :] - y[..., None, :, :]) ** 4).sum(-1)


def euler_step(x, y, *, m, k, learning_rate, seed, step=0, loss="sinkhorn_divergence", cost="sqeuclidean", **options):
    """One step by torch autograd through the public functions, minibatch by minibatch."""
    out, value = x.copy(), 0.0
    for number in range(step * k, (step + 1) * k):
        rows, columns = (draw_subsets(seed, number, 1, side, n, m)[0] for side, n in enumerate((len(x), len(y))))
        leaf, other = torch.tensor(x[rows], requires_grad=True), torch.tensor(y[columns])
        if loss == "transport":
            h = jumbot.solve(parse_cost(cost)(leaf, other), tol=TOL, **options).value
        else:
            h = jumbot.sinkhorn_divergence(leaf, other, cost=cost, tol=1e3 * TOL, **options)
        (gradient,) = torch.autograd.grad(h, leaf)
        np.add.at(out, rows, -learning_rate * m / k * gradient.numpy())
        value += float(h.detach()) / k
    return out, value


@pytest.mark.parametrize("cost", ["sqeuclidean", "euclidean", quartic])
@pytest.mark.parametrize("setting", SETTINGS)
def test_a_step_is_autograd_through_the_divergence(setting, cost, rng):
    x, y = clouds(rng, 14, 11)
    options = {"m": 8, "k": 3, "learning_rate": 0.1, "seed": 5, "epsilon": 0.3, "cost": cost, **SETTINGS[setting]}
    flow = jumbot.gradient_flow(x, y, steps=1, tol=TOL, **options)
    expected, value = euler_step(x, y, **options)
    assert np.abs(flow.points - x).max() > 1e-2
    np.testing.assert_allclose(flow.points, expected, rtol=0, atol=1e-7)
    assert flow.losses[0] == pytest.approx(value, abs=1e-8)


@pytest.mark.parametrize("epsilon", [0.0, 0.3])
@pytest.mark.parametrize("setting", [{"tau": 0.7}, {"tau": (0.5, 1.0)}, {}])
def test_a_step_is_autograd_through_transport(setting, epsilon, rng):
    x, y = clouds(rng, 14, 11)
    options = {"m": 8, "k": 2, "learning_rate": 0.1, "seed": 5, "epsilon": epsilon, "loss": "transport", **setting}
    flow = jumbot.gradient_flow(x, y, steps=1, tol=TOL, **options)
    expected, value = euler_step(x, y, **options)
    np.testing.assert_allclose(flow.points, expected, rtol=0, atol=1e-7)
    assert flow.losses[0] == pytest.approx(value, abs=1e-8)


def test_steps_follow_one_another(rng):
    """Step s draws minibatches s k, ..., s k + k - 1 of the seed, whatever came before."""
    x, y = clouds(rng, 14, 11)
    options = {"m": 6, "k": 2, "learning_rate": 0.05, "seed": 3, "epsilon": 0.3, "tau": 1.0}
    flow = jumbot.gradient_flow(x, y, steps=4, tol=TOL, snapshots=range(5), **options)
    for step in range(4):
        expected, _ = euler_step(flow.snapshots[step], y, step=step, **options)
        np.testing.assert_allclose(flow.snapshots[step + 1], expected, rtol=0, atol=1e-7)


def test_points_not_drawn_stay(rng):
    x, y = clouds(rng, 50, 40)
    flow = jumbot.gradient_flow(x, y, m=5, steps=1, learning_rate=0.1, epsilon=0.1, tau=1.0)
    assert (flow.points != x).any(1).sum() == 5


@pytest.mark.parametrize("tau", [5.0, math.inf])
def test_the_divergence_falls(tau, rng):
    x, y = clouds(rng, 200, 150, shift=3)
    options = {"epsilon": 0.1, "tau": tau}
    flow = jumbot.gradient_flow(x, y, m=32, steps=300, learning_rate=0.1, **options)
    before, after = (jumbot.sinkhorn_divergence(p, y, **options) for p in (x, flow.points))
    assert after < 0.1 * before
    assert flow.losses[-50:].mean() < 0.3 * flow.losses[:10].mean()


def test_clusters_of_other_proportions():
    """64 % left against 36 % left: unbalanced minibatches leave the points with the cluster above them."""
    rng = np.random.default_rng(0)

    def two(left, height):
        sides = np.repeat([0.0, 3.0], [left, 100 - left])
        return rng.normal(size=(100, 2)) * 0.1 + np.stack([sides, np.full(100, height)], 1)

    x, y = two(64, 0.0), two(36, 1.0)
    crossed = {}
    for tau in (0.3, math.inf):
        flow = jumbot.gradient_flow(x, y, m=20, steps=500, learning_rate=0.1, epsilon=0.02, tau=tau)
        crossed[tau] = int((abs(flow.points[:, 0] - x[:, 0]) > 1.5).sum())
        assert abs(flow.points[:, 1].mean() - 1) < 0.1
    assert crossed[0.3] == 0
    assert crossed[math.inf] > 15


def test_same_seed_same_bits(rng):
    x, y = clouds(rng, 60, 50)
    options = {"m": 10, "k": 3, "steps": 20, "learning_rate": 0.1, "epsilon": 0.1, "tau": 1.0}
    first, again, other = (jumbot.gradient_flow(x, y, seed=seed, **options) for seed in (1, 1, 2))
    assert (first.snapshots == again.snapshots).all()
    assert (first.losses == again.losses).all()
    assert (first.points != other.points).any()


def test_inputs_are_not_changed(rng):
    x, y = clouds(rng, 20, 20)
    kept = x.copy(), y.copy()
    flow = jumbot.gradient_flow(x, y, m=10, steps=5, learning_rate=0.1, epsilon=0.1, tau=1.0)
    assert (x == kept[0]).all()
    assert (y == kept[1]).all()
    assert not np.shares_memory(flow.points, x)
    assert not np.shares_memory(flow.target, y)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_numpy_and_torch(dtype, rng):
    x, y = (p.astype(dtype) for p in clouds(rng, 20, 15))
    options = {"m": 10, "steps": 7, "learning_rate": 0.1, "epsilon": 0.1, "tau": 1.0, "snapshots": 3}
    in_numpy = jumbot.gradient_flow(x, y, **options)
    leaf = torch.from_numpy(x).requires_grad_()
    in_torch = jumbot.gradient_flow(leaf, torch.from_numpy(y), **options)
    for name, shape in (("snapshots", (3, 20, 2)), ("points", (20, 2)), ("target", (15, 2))):
        found, other = getattr(in_numpy, name), getattr(in_torch, name)
        assert isinstance(found, np.ndarray)
        assert isinstance(other, torch.Tensor)
        assert found.shape == tuple(other.shape) == shape
        assert str(found.dtype) == dtype
        assert not other.requires_grad
        assert (found == other.numpy()).all()


def test_snapshots_and_callback(rng):
    x, y = clouds(rng, 20, 15)
    options = {"m": 10, "learning_rate": 0.5, "epsilon": 0.1, "tau": 1.0}
    seen = []
    flow = jumbot.gradient_flow(
        x, y, steps=10, snapshots=[10, 0, 3], callback=lambda *event: seen.append(event), **options
    )
    assert flow.steps.tolist() == [0, 3, 10]
    assert flow.times.tolist() == [0, 1.5, 5]
    assert (flow.snapshots[0] == x).all()
    assert (flow.snapshots[-1] == flow.points).all()
    assert [event[0] for event in seen] == list(range(1, 11))
    assert [event[2] for event in seen] == flow.losses.tolist()
    assert flow.settings["m"] == 10
    assert jumbot.gradient_flow(x, y, steps=4, snapshots=3, **options).steps.tolist() == [0, 2, 4]
    assert jumbot.gradient_flow(x, y, steps=1, snapshots=[], **options).snapshots.shape == (0, 20, 2)


def test_ctrl_c_returns_what_is_done(rng):
    x, y = clouds(rng, 20, 15)

    def stop(step, points, loss):
        if step == 4:
            raise KeyboardInterrupt

    flow = jumbot.gradient_flow(
        x, y, m=10, steps=10, learning_rate=0.1, epsilon=0.1, tau=1.0, snapshots=6, callback=stop
    )
    assert flow.interrupted
    assert "interrupted" in repr(flow)
    assert len(flow.losses) == 4
    assert flow.steps.tolist() == [0, 2, 4]
    assert len(flow.snapshots) == 3


def test_what_the_sweeps_leave_open_goes_to_the_solver(rng, monkeypatch):
    """Two sweeps are never enough; the general solver then gives the same step."""
    x, y = clouds(rng, 20, 20)
    options = {"m": 10, "steps": 1, "learning_rate": 0.1, "epsilon": 0.05, "tau": 1.0, "tol": 1e-13}
    expected = jumbot.gradient_flow(x, y, **options)
    monkeypatch.setattr("jumbot.flow._SWEEPS", 2)
    found = jumbot.gradient_flow(x, y, **options)
    np.testing.assert_allclose(found.points, expected.points, rtol=0, atol=1e-7)


def test_stopping_short_warns_once(rng, monkeypatch):
    x, y = clouds(rng, 20, 20)
    monkeypatch.setattr("jumbot.flow._SWEEPS", 2)
    monkeypatch.setattr("jumbot.flow.MAX_ITERATIONS", 2)
    with pytest.warns(jumbot.NotConvergedWarning, match=r"\btol\b") as warned:
        jumbot.gradient_flow(x, y, m=10, steps=3, learning_rate=0.1, epsilon=0.05, tau=1.0)
    assert len(warned) == 1
    assert warned[0].filename == __file__


# animations


def moved(rng, d=2, **options):
    x, y = clouds(rng, 20, 15, d)
    return jumbot.gradient_flow(
        x, y, m=10, steps=10, learning_rate=0.5, epsilon=0.1, tau=1.0, **{"snapshots": 4, **options}
    )


def test_gif(tmp_path, rng):
    image = pytest.importorskip("PIL.Image")
    pytest.importorskip("matplotlib")
    path = moved(rng).animate(tmp_path / "flow.gif", colors=np.arange(20))
    with image.open(path) as gif:
        assert gif.n_frames == 4
        assert min(gif.size) > 200


def test_mp4_without_ffmpeg_says_so(tmp_path, rng, monkeypatch):
    animation = pytest.importorskip("matplotlib.animation")
    monkeypatch.setattr(animation.FFMpegWriter, "isAvailable", classmethod(lambda cls: False))
    with pytest.raises(jumbot.UnsupportedError, match=r"ffmpeg.*\.gif"):
        moved(rng).animate(tmp_path / "flow.mp4")


def test_animation_errors(tmp_path, rng, monkeypatch):
    with refused(r"'flow\.png'"):
        moved(rng).animate(tmp_path / "flow.png")
    with refused("two coordinates"):
        moved(rng, d=1).animate(tmp_path / "flow.gif")
    with refused("one of them"):
        moved(rng, snapshots=[]).animate(tmp_path / "flow.gif")
    monkeypatch.setitem(sys.modules, "matplotlib.animation", None)
    with pytest.raises(MissingPackageError, match="pip install"):
        moved(rng).animate(tmp_path / "flow.gif")


# errors


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x0": np.zeros(5)}, r"x0: shape \(5,\)"),
        ({"x0": np.full((5, 2), np.nan)}, "x0: contains NaN"),
        ({"y": np.zeros((5, 3))}, "x0, y must have the same number of coordinates"),
        ({"y": torch.zeros(5, 2)}, "y: a torch tensor with"),
        ({"m": 6}, "m: got 6, but the smaller cloud has 5"),
        ({"m": 2.5}, "m must be a whole number"),
        ({"k": 0}, "k: got 0"),
        ({"steps": 0}, "steps must"),
        ({"learning_rate": 0}, "learning_rate: got 0"),
        ({"epsilon": -1}, "epsilon must"),
        ({"tau": 0}, "tau: got 0"),
        ({"tau": (1, 2)}, "tau: the Sinkhorn divergence is symmetric"),
        ({"seed": -1}, "seed must"),
        ({"loss": "sinkhorn"}, "loss: 'sinkhorn' is not known"),
        ({"cost": "manhattan"}, "cost: 'manhattan' is not known"),
        ({"cost": lambda x, y: x @ y.mT[..., :1]}, "cost must return a tensor of shape"),
        ({"snapshots": 1}, "snapshots: got 1"),
        ({"snapshots": [3]}, "snapshots: got step 3, but the flow ends after step 2"),
        ({"learning_rate": 1e60, "steps": 20, "tau": math.inf}, "learning_rate: 1e.60 moved points to infinity"),
    ],
)
def test_errors(change, message, rng):
    x, y = clouds(rng, 5, 5)
    call = {"x0": x, "y": y, "m": 3, "steps": 2, "learning_rate": 0.1, "epsilon": 0.1, "tau": 1.0, **change}
    with refused(message):
        jumbot.gradient_flow(**call)
