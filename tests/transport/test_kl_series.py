"""The series of KL against fifty digits, on both sides of where they end."""

from __future__ import annotations

from decimal import Decimal, localcontext

import pytest
import torch

from jumbot.transport._kernels.vectormath import near_by_log, near_by_ratio
from jumbot.transport._kl_series import NEAR, of_log, of_ratio
from jumbot.transport.divergences import KL

STEPS = [sign * NEAR * size for sign in (1, -1) for size in (1, 0.3, 1e-3, 1e-8)]


def truth(x: Decimal) -> float:
    with localcontext() as context:
        context.prec = 50
        return float(x * x.ln() - x + 1)


@pytest.mark.parametrize("step", STEPS)
def test_the_series_of_kl(step: float) -> None:
    with localcontext() as context:
        context.prec = 50
        by_ratio, by_log = truth(1 + Decimal(step)), truth(Decimal(step).exp())
    for found in (of_ratio(step), near_by_ratio(step), float(of_ratio(torch.tensor(step, dtype=torch.float64)))):
        assert found == pytest.approx(by_ratio, rel=1e-12, abs=0)
    for found in (of_log(step), near_by_log(step)):
        assert found == pytest.approx(by_log, rel=1e-12, abs=0)


def test_phi_of_kl_is_one_function_on_both_sides_of_the_end_of_its_series() -> None:
    d = torch.tensor([-2, -1.0001, -0.9999, 0.9999, 1.0001, 2], dtype=torch.float64) * NEAR
    expected = [truth(1 + Decimal(float(each))) for each in d]
    torch.testing.assert_close(KL().phi(1 + d), torch.tensor(expected, dtype=torch.float64), rtol=1e-9, atol=0)
