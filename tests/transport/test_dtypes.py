"""got numpy in, numpy out; torch in, torch out; the dtype that; float32 agrees with float64."""

import numpy as np
import pytest
import torch

import jumbot

from ..generators import posed
from ..oracles import cases

ARRAYS = ("plan", "value", "linear", "dual", "gap", "relative_gap", "mass")
KINDS = {
    "numpy32": lambda x: x.astype(np.float32),
    "numpy64": lambda x: x,
    "torch32": lambda x: torch.tensor(x, dtype=torch.float32),
    "torch64": torch.tensor,
}


@pytest.mark.parametrize("epsilon", [0, 0.05])
@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_out_as_in(kind, batched, epsilon, rng):
    problem = posed(rng, epsilon=epsilon, tau=0.5)
    cost = np.stack([problem.cost] * 2) if batched else problem.cost
    cost, a, b = (KINDS[kind](x) for x in (cost, problem.a, problem.b))
    solution = jumbot.solve(cost, a, b, **problem.arguments)
    fields = {name: getattr(solution, name) for name in ARRAYS}
    fields |= {f"{name}[{i}]": getattr(solution, name)[i] for name in ("potentials", "marginals") for i in (0, 1)}
    for name, field in fields.items():
        if kind.startswith("torch"):
            assert isinstance(field, torch.Tensor), name
        else:
            assert isinstance(field, np.ndarray | np.generic), name
        assert field.dtype == cost.dtype, name


@pytest.mark.parametrize("case", cases(0, 0.02, references=("product", "ones")))
def test_float32_agrees_with_float64(case, rng):
    problem = posed(rng, 15, 12, **case)
    single = jumbot.solve(*(x.astype(np.float32) for x in (problem.cost, problem.a, problem.b)), **problem.arguments)
    double = problem.solve(tol=1e-8)
    assert single.converged
    assert single.value == pytest.approx(double.value, rel=5e-6)
    if problem.epsilon:
        np.testing.assert_allclose(single.plan, double.plan, atol=3e-3 * double.plan.max())


def test_torch_and_numpy_agree_to_the_bit(rng):
    problem = posed(rng, tau=0.5)
    out = jumbot.solve(*map(torch.tensor, (problem.cost, problem.a, problem.b)), **problem.arguments)
    np.testing.assert_array_equal(out.plan.numpy(), problem.solve().plan)


@pytest.mark.parametrize("epsilon", [0, 0.1])
def test_inputs_are_left_alone_and_any_layout_is_read(epsilon, rng):
    problem = posed(rng, epsilon=epsilon, tau=0.5)
    before = problem.cost.copy(), problem.a.copy()
    plan = problem.solve().plan
    np.testing.assert_array_equal(problem.cost, before[0])
    np.testing.assert_array_equal(problem.a, before[1])
    np.testing.assert_array_equal(problem.but(cost=np.asfortranarray(problem.cost)).solve().plan, plan)
    transposed = torch.tensor(problem.cost.T.copy()).T
    out = jumbot.solve(transposed, torch.tensor(problem.a), torch.tensor(problem.b), **problem.arguments)
    np.testing.assert_array_equal(out.plan.numpy(), plan)
    frozen = problem.cost.copy()
    frozen.flags.writeable = False
    np.testing.assert_array_equal(problem.but(cost=frozen).solve().plan, plan)


def test_same_call_same_bits(rng):
    problem = posed(rng, 30, 20, epsilon=0.01, tau=0.5)
    np.testing.assert_array_equal(problem.solve().plan, problem.solve().plan)


@pytest.mark.parametrize("size", [1, 3])
def test_arrays_that_run_backwards(size):
    cost, weights = np.arange(float(size * size)).reshape(size, size), np.arange(1.0, size + 1) / size
    forward = jumbot.solve(cost[::-1, ::-1].copy(), weights[::-1].copy(), epsilon=0.1, tau=1.0)
    backward = jumbot.solve(cost[::-1, ::-1], weights[::-1], epsilon=0.1, tau=1.0)
    np.testing.assert_array_equal(backward.plan, forward.plan)
