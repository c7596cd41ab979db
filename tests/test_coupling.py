"""`jumbot.couple`: which pairs come back, in what form, and from which plan."""

import math

import numpy as np
import ot
import pytest
import torch
from scipy.optimize import linear_sum_assignment

import jumbot
from tests.refusals import refused

from .transport.test_draws import p_value


def clouds(rng, n=32, m=None, shape=(2,)):
    return rng.normal(size=(n, *shape)), rng.normal(size=(m or n, *shape)) + 1


def squared(x, y):
    x, y = x.reshape(len(x), -1), y.reshape(len(y), -1)
    return ((x[:, None] - y[None]) ** 2).sum(-1)


@pytest.mark.parametrize("shape", [(), (1,), (2,), (40,), (3, 8, 8)], ids=str)
@pytest.mark.parametrize("kind", ["torch", "numpy"])
def test_exact_is_the_best_permutation(rng, shape, kind):
    x0, x1 = clouds(rng, shape=shape)
    best = linear_sum_assignment(squared(x0, x1))[1]
    if kind == "torch":
        z0, z1, i, j = jumbot.couple(torch.tensor(x0), torch.tensor(x1), return_index=True)
        assert isinstance(z0, torch.Tensor)
        assert i.dtype == j.dtype == torch.int64
    else:
        z0, z1, i, j = jumbot.couple(x0, x1, return_index=True)
        assert isinstance(z0, np.ndarray)
    assert np.asarray(i).tolist() == list(range(len(x0)))
    assert np.asarray(j).tolist() == best.tolist()
    assert (np.asarray(z0) == x0).all()
    assert (np.asarray(z1) == x1[best]).all()


def test_exact_is_the_coupling_of_the_network_simplex(rng):
    """The plan from which torchcfm's sampler draws its exact pairs."""
    x0, x1 = clouds(rng, n=128)
    weights = np.full(128, 1 / 128)
    *_, i, j = jumbot.couple(x0, x1, return_index=True)
    plan = np.zeros((128, 128))
    plan[i, j] = 1 / 128
    np.testing.assert_allclose(ot.emd(weights, weights, squared(x0, x1)), plan, atol=1e-12)


def test_the_same_as_torchcfm(rng):
    sampler = pytest.importorskip("torchcfm.optimal_transport").OTPlanSampler
    x0, x1 = (torch.tensor(x) for x in clouds(rng, n=64))
    *_, i, j = jumbot.couple(x0, x1, return_index=True)
    plan = sampler("exact").get_map(x0, x1)
    assert (plan[i, j] > 0).all()
    for method, setting in {"sinkhorn": {}, "unbalanced": {"tau": 2.0}}.items():
        theirs = sampler(method, reg=0.5, reg_m=2.0).get_map(x0, x1)
        ours = jumbot.solve(squared(x0.numpy(), x1.numpy()), epsilon=0.5, **setting).plan
        np.testing.assert_allclose(ours, theirs, atol=1e-3 * theirs.max())  # they stop early


@pytest.mark.parametrize(
    "setting",
    [
        {"epsilon": 0.5},
        {"epsilon": 0.5, "tau": 2.0},
        {"tau": 2.0},
        {"tau": (math.inf, 2.0)},
        {"tau": 2.0, "divergence": "tv"},
        {"mass": 0.5},
        {"epsilon": 0.5, "mass": 0.5},
        {"epsilon": 0.5, "cost": "euclidean"},
    ],
    ids=str,
)
def test_other_couplings_are_drawn_from_the_plan(rng, setting):
    """4 x 4 points, each pair drawn by many calls of one generator."""
    x0, x1 = clouds(rng, n=4)
    cost = squared(x0, x1)
    problem = {"epsilon": 0.0} | {k: v for k, v in setting.items() if k != "cost"}
    plan = jumbot.solve(np.sqrt(cost) if "cost" in setting else cost, **problem, tol=1e-10).plan
    generator = np.random.default_rng(0)
    index = [
        jumbot.couple(x0, x1, generator=generator, return_index=True, tol=1e-10, **setting)[2:] for _ in range(500)
    ]
    i, j = np.concatenate(index, axis=1)
    assert p_value(np.where(plan > 1e-9, plan, 0), i, j) > 1e-3


def test_unequal_sizes_give_as_many_pairs_as_x0(rng):
    x0, x1 = clouds(rng, n=6, m=4)
    z0, z1, i, j = jumbot.couple(x0, x1, seed=0, return_index=True)
    assert z0.shape == z1.shape == (6, 2)
    plan = ot.emd(np.full(6, 1 / 6), np.full(4, 1 / 4), squared(x0, x1))
    assert (plan[i, j] > 0).all()
    assert (z0 == x0[i]).all()
    assert (z1 == x1[j]).all()


def test_outliers_are_left_out(rng):
    x0, x1 = clouds(rng, n=64)
    x1[:6] += 50
    z1 = jumbot.couple(x0, x1, tau=5.0, seed=0)[1]
    assert np.abs(z1).max() < 10
    assert np.abs(jumbot.couple(x0, x1)[1]).max() > 40


def test_seed_and_generator(rng):
    x0, x1 = (torch.tensor(x) for x in clouds(rng))

    def pairs(**source):
        return torch.stack(jumbot.couple(x0, x1, epsilon=0.5, return_index=True, **source)[2:])

    assert torch.equal(pairs(seed=0), pairs(seed=0))
    assert not torch.equal(pairs(seed=0), pairs(seed=1))
    assert torch.equal(pairs(seed=7), pairs(generator=np.random.default_rng(7)))
    draw = torch.Generator().manual_seed(3)
    first, second = pairs(generator=draw), pairs(generator=draw)
    assert not torch.equal(first, second)
    assert torch.equal(first, pairs(generator=draw.manual_seed(3)))
    assert not torch.equal(pairs(), pairs())


def test_global_generators_are_left_alone(rng):
    x0, x1 = (torch.tensor(x) for x in clouds(rng))
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    jumbot.couple(x0, x1)
    jumbot.couple(x0, x1, epsilon=0.5, tau=1.0)
    jumbot.couple(x0, x1, epsilon=0.5, seed=1)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert (np.random.get_state()[1] == before[1]).all()  # noqa: NPY002


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.uint8])
def test_rows_keep_their_dtype(dtype):
    x0 = torch.tensor([[10.0], [20.0], [30.0]]).to(dtype)
    z0, z1 = jumbot.couple(x0, x0.flip(0))
    assert z1.dtype == dtype
    assert torch.equal(z0, z1)


def test_rows_keep_their_gradients_and_the_plan_has_none(rng):
    x0, x1 = (torch.tensor(x, requires_grad=True) for x in clouds(rng))
    _, z1, _, j = jumbot.couple(x0, x1, epsilon=0.5, seed=0, return_index=True)
    (gradient,) = torch.autograd.grad((z1 * torch.arange(32.0)[:, None]).sum(), x1)
    expected = torch.zeros_like(x1).index_add_(0, j, torch.arange(32.0, dtype=x1.dtype)[:, None].expand(-1, 2))
    assert torch.equal(gradient, expected)
    assert not jumbot.couple(x0.detach(), x1.detach(), epsilon=0.5)[0].requires_grad


def test_inputs_are_not_changed(rng):
    x0, x1 = clouds(rng)
    kept = x0.copy(), x1.copy()
    z0, z1 = jumbot.couple(x0, x1)
    z0 += 1
    z1 += 1
    assert (x0 == kept[0]).all()
    assert (x1 == kept[1]).all()


def test_a_cost_of_ones_own(rng):
    x0, x1 = clouds(rng, shape=(2, 2))
    *_, j = jumbot.couple(x0, x1, cost=lambda x, y: -(x @ y.mT), return_index=True)
    assert (j == jumbot.couple(x0, x1, return_index=True)[3]).all()  # |x - y|^2 but for terms of one side


X = np.zeros((4, 2))
INVALID = {
    "x0, x1: torch and numpy": (torch.zeros(4, 2), X, {}),
    "x0, x1: numpy and torch": (X, torch.zeros(4, 2), {}),
    r"x0, x1: shapes \(4, 2\) and \(4, 3\)": (X, np.zeros((4, 3)), {}),
    r"x0, x1: shapes \(0, 2\)": (X[:0], X, {}),
    r"x0, x1: shapes \(\)": (np.array(1.0), X, {}),
    "x0, x1: float64 and float32": (X, X.astype(np.float32), {}),
    "x0: contains NaN": (X + np.nan, X, {}),
    "x1: contains NaN or infinite": (X, X + np.inf, {}),
    "x0: dtype complex128": (X.astype(complex), X.astype(complex), {}),
    "x0: dtype <U1": (X.astype("U1"), X.astype("U1"), {}),
    "x0: dtype torch.complex64": (torch.zeros(4, dtype=torch.cfloat), torch.zeros(4, dtype=torch.cfloat), {}),
    "seed, generator: both": (X, X, {"seed": 0, "generator": np.random.default_rng()}),
    "seed must be a whole": (X, X, {"seed": 0.5}),
    "seed must be": (X, X, {"seed": -1}),
    "generator: got int": (X, X, {"generator": 3}),
    "epsilon: -1": (X, X, {"epsilon": -1}),
    "tau: got 0": (X, X, {"tau": 0}),
    "mass: partial transport has no tau": (X, X, {"mass": 0.5, "tau": 1.0}),
    "cost: 'sqeuclid' is not known": (X, X, {"cost": "sqeuclid"}),
    r"cost must return a tensor of shape \(4, 4\) from x and y, got \(4,\)": (X, X, {"cost": lambda x, y: x[:, 0]}),
    "cost must return a tensor of shape .* got ndarray": (X, X, {"cost": lambda x, y: X}),
}


@pytest.mark.parametrize("message", INVALID)
def test_bad_input_is_named(message):
    x0, x1, setting = INVALID[message]
    with refused(message):
        jumbot.couple(x0, x1, **setting)


def test_constraints_are_not_ignored():
    with pytest.raises(jumbot.UnsupportedError, match="divergence"):
        jumbot.couple(X, X, divergence="range(0.5,2)")
