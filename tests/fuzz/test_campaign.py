"""A minute of the campaign, the same in every run; `make fuzz` draws others for as long as you like."""

import pytest

from .campaign import campaign
from .families import FAMILIES

CASES = {
    "solve": 5,
    "gradients": 20,
    "borders": 4,
    "large": 2,
    "divergence": 6,
    "large divergence": 1,
    "estimate": 6,
    "estimate borders": 1,
    "flow": 6,
    "flow borders": 1,
    "refusals": 60,
}


@pytest.mark.parametrize("family", CASES)
def test_nothing_is_wrong_with_the_first_cases(family):
    reports: list[str] = []
    tally = campaign(20261116, cases=CASES[family], family=family, say=reports.append)
    assert not tally.failures, "\n".join(reports)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["solve", "gradients", "divergence", "estimate", "flow"])
def test_nothing_is_wrong_with_more_cases(family):
    reports: list[str] = []
    tally = campaign(20261116, cases=50, family=family, say=reports.append)
    assert not tally.failures, "\n".join(reports)


def test_every_family_takes_part():
    assert CASES.keys() == FAMILIES.keys()
