"""The two-cluster example: what exact transport is forced to do, and what a finite tau changes."""

from __future__ import annotations

import numpy as np
import pytest

from jumbot.report.two_clusters import make_points, solve_two_clusters


def test_mass_between_clusters_falls_with_tau() -> None:
    points = make_points()
    results = solve_two_clusters(points)
    between = np.array([result.mass_between for result in results])
    assert between[0] == pytest.approx(0.2, abs=1e-9)  # 5 of 10 source points, 3 of 10 targets: 2 must cross
    assert (np.diff(between) <= 1e-9).all()
    assert between[-1] < 1e-3
    assert all(result.relative_gap <= 1e-6 for result in results)
