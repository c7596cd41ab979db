"""Arguments: numbers that come in one type or another, and entries that are not finite."""

import math

import numpy as np
import pytest
import torch

import jumbot
from jumbot._base.options import Count, Number, Weight, check, check_non_negative, check_positive, check_whole
from jumbot.transport._checks import check_taus, probe
from tests.refusals import refused


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("size", [1, 100, 1 << 15, 1 << 21])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_probe_sees_every_entry_that_is_not_finite(bad, size, dtype):
    entries = torch.ones(size, dtype=dtype)
    assert math.isfinite(probe(entries))
    for at in {0, size // 3, size - 1}:
        spoilt = entries.clone()
        spoilt[at] = bad
        assert not math.isfinite(probe(spoilt))
    both = torch.tensor([math.inf, -math.inf] * size, dtype=dtype)
    assert not math.isfinite(probe(both))


@pytest.mark.parametrize("layout", ["transposed", "every other", "one for all"])
def test_probe_of_memory_that_is_not_in_one_piece(layout):
    entries = torch.ones(8, 10, dtype=torch.float64)
    view = {"transposed": entries.T, "every other": entries[:, ::2], "one for all": entries[:1].expand(8, 10)}[layout]
    assert math.isfinite(probe(view))
    entries[0, 4] = math.nan
    assert not math.isfinite(probe(view))


def test_costs_whose_squares_overflow_are_costs():
    cost = np.array([[0.0, 1e200], [1e200, 0.0]])
    solution = jumbot.solve(cost, epsilon=1e198, tau=1e199)
    assert solution.converged
    points = 1e160 * np.array([[0.0], [1.0]])
    with refused("cost"):  # the points are finite, their squared distances are not
        jumbot.sinkhorn_divergence(points, -points, epsilon=1.0)


@pytest.mark.parametrize("value", [0.5, np.float64(0.5), np.float32(0.5), torch.tensor(0.5), np.array(0.5)])
def test_numbers_of_any_type_are_the_same_number(value):
    assert check_non_negative("x", value) == 0.5
    assert type(check_non_negative("x", value)) is float
    assert check_taus(value) == check_taus((value, value)) == (0.5, 0.5)


@pytest.mark.parametrize("value", [-0.5, -math.inf, math.nan, True, "1", None, 0.0])
def test_what_is_no_price_is_refused(value):
    with refused("tau"):
        check_taus(value)
    with refused("tau"):
        check_taus((1.0, value))


def test_edges_of_the_range():
    assert check_non_negative("x", 0.0) == 0.0
    for value, ask in ((0.0, check_positive), (math.inf, check_positive), (math.inf, check_non_negative)):
        with refused("x"):
            ask("x", value)
    with refused("x"):
        check_non_negative("x", -1e-300)
    assert check_positive("x", math.inf, infinite=True) == math.inf
    assert check_taus(math.inf) == (math.inf, math.inf)


def test_a_view_that_negates_is_a_cost():
    cost = torch.randn(4, 5, dtype=torch.complex128, generator=torch.Generator().manual_seed(0)).conj().imag
    assert cost.is_neg()
    assert float(jumbot.solve(cost, epsilon=0.1, tau=1.0).value) == float(
        jumbot.solve(cost.resolve_neg(), epsilon=0.1, tau=1.0).value
    )


@pytest.mark.parametrize("value", [-1, "1", True, np.True_, math.nan, None, 10**400, torch.ones(2), 1j, b"1"])
def test_functions_and_options_give_one_answer(value):
    """What a function says of a number is what a dataclass of options says of it."""
    answers = []
    for ask in (lambda: check_non_negative("x", value), lambda: check("x", value, Weight)):
        with refused("x") as found:
            ask()
        answers.append(str(found.value))
    assert answers[0] == answers[1]
    with refused("x"):
        check("x", math.nan, Number)


@pytest.mark.parametrize("value", [0, 1.5, "3", math.inf, 10**400, torch.tensor(2.5)])
def test_whole_numbers_have_one_answer_too(value):
    with refused("n") as one:
        check_whole("n", value, least=1)
    with refused("n") as other:
        check("n", value, Count)
    assert str(one.value) == str(other.value)
    assert check_whole("n", torch.tensor(3), least=1) == check("n", np.int64(3), Count) == 3
