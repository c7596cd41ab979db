"""Bad input: an exception of the one tree that names the argument, before any work is done."""

import math

import numpy as np
import pytest
import scipy.sparse
import torch

import jumbot
from tests.refusals import refused

N, M = 3, 4
COST = np.arange(12.0).reshape(N, M) / 12
A, B = np.full(N, 1 / N), np.full(M, 1 / M)


def spoiled(x, value, at=0):
    x = x.copy()
    x.flat[at] = value
    return x


def tensors(**dtypes):
    return {name: torch.tensor(x, dtype=dtypes.get(name)) for name, x in (("cost", COST), ("a", A), ("b", B))}


def wrong(name, case, **arguments):
    return pytest.param(name, arguments, id=f"{name}: {case}")


INVALID = [
    wrong("cost", "NaN", cost=spoiled(COST, np.nan)),
    wrong("cost", "minus infinity", cost=spoiled(COST, -np.inf)),
    wrong("cost", "a vector", cost=COST[0], a=None, b=None),
    wrong("cost", "a number", cost=np.array(1.0), a=None, b=None),
    wrong("cost", "no rows", cost=np.zeros((0, M)), a=None),
    wrong("cost", "no columns", cost=np.zeros((N, 0)), b=None),
    wrong("cost", "no rows, batched", cost=np.zeros((2, 0, M)), a=None),
    wrong("cost", "complex", cost=COST.astype(complex)),
    wrong("cost", "complex", cost=torch.tensor(COST, dtype=torch.complex64), a=None, b=None),
    wrong("cost", "text", cost=np.array([["x"] * M] * N)),
    wrong("cost", "sparse, torch", cost=torch.tensor(COST).to_sparse(), a=None, b=None),
    wrong("cost", "sparse, scipy", cost=scipy.sparse.csr_array(COST)),
    wrong("cost", "meta", cost=torch.empty(N, M, device="meta"), a=None, b=None),
    wrong("cost", "masked", cost=np.ma.masked_greater(COST, 0.5)),
    wrong("a", "sparse", **tensors() | {"a": torch.tensor(A).to_sparse()}),
    wrong("a", "NaN", a=spoiled(A, np.nan)),
    wrong("b", "NaN", b=spoiled(B, np.nan)),
    wrong("a", "infinite", a=spoiled(A, np.inf)),
    wrong("a", "negative", a=spoiled(A, -0.1)),
    wrong("b", "negative", b=spoiled(B, -0.1)),
    wrong("a", "no mass", a=np.zeros(N)),
    wrong("a", "too long", a=np.ones(N + 1)),
    wrong("b", "too short", b=np.ones(M - 1)),
    wrong("a", "a and b exchanged", a=B, b=A),
    wrong("a", "a number", a=np.array(1.0)),
    wrong("a", "batches that do not broadcast", cost=np.stack([COST] * 2), a=np.ones((5, N))),
    wrong("a", "batches that differ", a=np.ones((2, N)), b=np.ones((3, M))),
    wrong("a", "another dtype", **tensors(a=torch.float32)),
    wrong("b", "another dtype", **tensors(b=torch.float32)),
    wrong("a", "another device", **tensors() | {"a": torch.ones(N, device="meta", dtype=torch.float64)}),
    wrong("a", "torch beside numpy", a=torch.tensor(A)),
    wrong("epsilon", "negative", epsilon=-0.1),
    wrong("epsilon", "NaN", epsilon=math.nan),
    wrong("epsilon", "infinite", epsilon=math.inf),
    wrong("epsilon", "text", epsilon="small"),
    wrong("epsilon", "to be differentiated", epsilon=torch.tensor(0.1, requires_grad=True)),
    wrong("tau", "to be differentiated", tau=(1.0, torch.tensor(1.0, requires_grad=True))),
    wrong("tau", "zero", tau=0.0),
    wrong("tau", "negative", tau=-1.0),
    wrong("tau", "NaN", tau=math.nan),
    wrong("tau", "zero in a pair", tau=(1.0, 0.0)),
    wrong("tau", "three", tau=(1.0, 1.0, 1.0)),
    wrong("tau", "finite with range", divergence="range(0.5,2)", tau=1.0),
    wrong("tau", "a finite side with range", divergence="range(0.5,2)", tau=(math.inf, 1.0)),
    wrong("divergence", "unknown", divergence="klein"),
    wrong("divergence", "no number in range", divergence="range(low,2)"),
    wrong("divergence", "one number for range", divergence="range(0.5)", tau=math.inf),
    wrong("divergence", "an empty range", divergence="range(2,0.5)", tau=math.inf),
    wrong("divergence", "not a divergence", divergence=3),
    wrong("reference", "unknown", reference="uniform"),
    wrong("mass", "zero", mass=0.0, tau=math.inf),
    wrong("mass", "negative", mass=-0.5, tau=math.inf),
    wrong("mass", "NaN", mass=math.nan, tau=math.inf),
    wrong("mass", "smaller of the two masses", mass=1.5, tau=math.inf),
    wrong("mass", "beside tau", mass=0.5),
    wrong("mass", "beside a divergence", mass=0.5, tau=math.inf, divergence="tv"),
    wrong("tol", "negative", tol=-1e-6),
    wrong("tol", "NaN", tol=math.nan),
    wrong("max_iterations", "zero", max_iterations=0),
    wrong("init", "potentials of another size", init=(np.zeros(N + 1), np.zeros(M))),
    wrong("init", "neither a Solution nor potentials", init="warm"),
]


def call(**arguments):
    merged = {"cost": COST, "a": A, "b": B, "epsilon": 0.1, "tau": 1.0} | arguments
    return jumbot.solve(merged.pop("cost"), merged.pop("a"), merged.pop("b"), **merged)


def test_the_good_call_is_good():
    assert call().converged


@pytest.mark.parametrize(("name", "arguments"), INVALID)
def test_invalid_argument_is_named(name, arguments):
    with pytest.raises(jumbot.JumbotError, match=rf"(?i)(^|[`'\s]){name}\b") as caught:
        call(**arguments)
    assert isinstance(caught.value, ValueError)
    assert len(str(caught.value)) > len(name) + 20, "got a message says what and how to fix it"


def test_messages_say_what_was_given():
    with pytest.raises(jumbot.JumbotError, match=r"-0\.1\b"):
        call(epsilon=-0.1)
    with pytest.raises(jumbot.JumbotError, match=r"\(4,\).*\(3, 4\)"):
        call(a=np.ones(4))
    with pytest.raises(jumbot.JumbotError, match=r"float32.*float64"):
        call(**tensors(a=torch.float32))
    with pytest.raises(jumbot.JumbotError, match=r"meta.*cpu"):
        call(**tensors() | {"a": torch.ones(N, device="meta", dtype=torch.float64)})


@pytest.mark.parametrize("epsilon", [0, 0.1])
def test_balanced_masses_that_differ_are_both_named(epsilon):
    with pytest.raises(jumbot.JumbotError, match=r"1\.5\b.*\b2\b") as caught:
        call(a=1.5 * A, b=2 * B, tau=math.inf, epsilon=epsilon)
    assert isinstance(caught.value, ValueError)


def test_balanced_masses_that_differ_by_rounding_are_fine():
    single = [x.astype(np.float32) for x in (COST, A * 1.0000001, B)]
    assert jumbot.solve(*single, epsilon=0.1).converged


def test_masses_that_no_range_joins():
    with pytest.raises(jumbot.JumbotError, match=r"\b1\b.*\b2\b"):
        call(b=2 * B, divergence="range(0.9,1.1)", tau=math.inf)


def test_unknown_divergence_suggests_the_nearest():
    for wrong_name, right in (("klx", "kl"), ("tvv", "tv"), ("chi-2", "chi2"), ("rang(0.5,2)", "range")):
        with pytest.raises(jumbot.JumbotError, match=rf"{wrong_name.split('(')[0]}.*\b{right}\b"):
            call(divergence=wrong_name)


@pytest.mark.parametrize(
    "arguments",
    [
        {"divergence": "chi2"},
        {"divergence": "range(0.5,2)", "tau": math.inf},
        {"divergence": "power(0.5)"},
    ],
    ids=str,
)
def test_what_epsilon_zero_does_not_offer(arguments):
    with pytest.raises(jumbot.UnsupportedError):
        call(epsilon=0, **arguments)


def test_unbounded_problem():
    """A cost below -(tau_a + tau_b) pays for creating mass without end, at epsilon = 0 with TV."""
    with pytest.raises(jumbot.UnboundedError):
        call(cost=spoiled(COST, -2.5), epsilon=0, tau=1.0, divergence="tv")
    assert call(cost=spoiled(COST, -1.5), epsilon=0, tau=1.0, divergence="tv").converged


def test_infinite_cost_where_both_marginals_are_exact():
    """A row that may go nowhere but must: never a plan that pretends."""
    cost = COST.copy()
    cost[1] = np.inf
    for epsilon in (0, 0.1):
        with refused("cost"):
            call(cost=cost, epsilon=epsilon, tau=math.inf)


X, Y = np.arange(6.0).reshape(3, 2), np.arange(8.0).reshape(4, 2)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        wrong("tau", "a pair is not symmetric", tau=(1.0, 2.0)),
        wrong("tau", "negative", tau=-1.0),
        wrong("epsilon", "negative", epsilon=-1.0),
        wrong("y", "another dimension", y=np.zeros((4, 3))),
        wrong("y", "another dtype", y=Y.astype(np.float32)),
        wrong("x, y", "batches of two and three clouds", x=np.stack([X] * 2), y=np.stack([Y] * 3)),
        wrong("x, y", "batches in several axes", x=np.ones((2, 1, 3, 2)), y=np.ones((3, 2, 4, 2))),
        wrong("x", "a vector", x=np.zeros(3)),
        wrong("x", "NaN", x=spoiled(X, np.nan)),
        wrong("x", "sparse", x=torch.tensor(X).to_sparse(), y=torch.tensor(Y)),
        wrong("y", "meta", x=torch.tensor(X), y=torch.tensor(Y, device="meta")),
        wrong("a", "negative", a=spoiled(A, -1.0)),
        wrong("b", "too long", b=np.ones(5)),
        wrong("cost", "unknown", cost="manhattan"),
        wrong("divergence", "unknown", divergence="klx"),
    ],
)
def test_sinkhorn_divergence(name, arguments):
    arguments = {"x": X, "y": Y, "epsilon": 0.1, "tau": 1.0} | arguments
    with pytest.raises(jumbot.JumbotError, match=rf"(?i)(^|[`'\s]){name}\b"):
        jumbot.sinkhorn_divergence(arguments.pop("x"), arguments.pop("y"), **arguments)


def test_one_tree():
    assert issubclass(jumbot.JumbotError, Exception)
    assert issubclass(jumbot.NotConvergedWarning, Warning)


@pytest.mark.parametrize(
    "call",
    [
        lambda x, y: jumbot.sinkhorn_divergence(x, y, epsilon=0.1),
        lambda x, y: jumbot.estimate(x, y, m=2, k=3, epsilon=0.1),
        lambda x, y: jumbot.gradient_flow(x, y, m=2, steps=1, learning_rate=0.1, epsilon=0.1, tau=1.0),
    ],
)
def test_frames_are_not_joined_by_the_place_of_their_columns(call):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pandas.DataFrame(np.arange(8.0).reshape(4, 2), columns=["u", "v"])
    with pytest.raises(jumbot.ArgumentError, match=r"u, v.*v, u"):
        call(frame, frame[["v", "u"]])
    call(frame, frame)
