"""The two-cluster example: what exact transport is forced to do, and what a finite tau changes."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import jumbot
from jumbot._paper.record import make_points

ROOT = Path(__file__).resolve().parents[2]


def test_mass_between_clusters_falls_with_tau() -> None:
    points = make_points()
    solutions = [jumbot.solve(points.cost, epsilon=0.0, tau=tau) for tau in (math.inf, 10.0, 2.0, 0.5)]
    between = np.array([solution.plan[points.between].sum() for solution in solutions])
    assert between[0] == pytest.approx(0.2, abs=1e-9)  # 5 of 10 source points, 3 of 10 targets: 2 must cross
    assert (np.diff(between) <= 1e-9).all()
    assert between[-1] < 1e-3
    assert all(solution.converged for solution in solutions)


@pytest.mark.slow
def test_the_picture_of_the_readme(tmp_path: Path) -> None:
    script = ROOT / "tools" / "two_clusters.py"
    subprocess.run([sys.executable, str(script), str(tmp_path / "new.png")], check=True)
    assert 10_000 < (tmp_path / "new.png").stat().st_size < 300_000
