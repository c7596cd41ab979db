"""The quick version of each figure runs, leaves its files, and the paper's claims hold in it."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from jumbot._paper import ITEMS, TRAINED, fig1, fig2, fig4, reproduce, theorem1
from jumbot._paper.record import make_points
from tests.refusals import refused

SINGLE = [item for item in ITEMS if item != "all-synthetic" and item not in TRAINED]


@pytest.mark.parametrize("item", SINGLE)
def test_quick_version(item: str, tmp_path: Path) -> None:
    record = reproduce(item, tmp_path / "new", quick=True)
    assert json.loads((tmp_path / "new" / f"{item}.json").read_text(encoding="utf-8")) == record
    assert record["item"] == item
    assert record["quick"] is True
    assert record["seed"] == 0
    for file in record["files"]:
        assert 0 < (tmp_path / "new" / file).stat().st_size < 300_000, file
    assert {f"{item}.png", f"{item}.pdf", f"{item}.json"} <= set(record["files"])
    assert record["claims"]
    for claim in record["claims"]:
        assert claim["holds"], claim


def test_all_synthetic_runs_every_item(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import jumbot._paper.fig3

    claim = {"statement": "", "measured": {}, "holds": True}
    for module in (fig1, fig2, jumbot._paper.fig3, fig4, theorem1):
        monkeypatch.setattr(module, "run", lambda folder, quick, seed: {"claims": [claim], "seen": (quick, seed)})
    record = reproduce("all-synthetic", tmp_path, quick=True, seed=3)
    assert list(record["items"]) == SINGLE
    assert len(record["claims"]) == len(SINGLE)
    assert record["items"]["fig4"]["seen"] == (True, 3)


def test_unknown_item(tmp_path: Path) -> None:
    with refused("fig9.*Known: fig1"):
        reproduce("fig9", tmp_path)


@pytest.mark.slow
def test_same_seed_same_numbers(tmp_path: Path) -> None:
    first, second, other = (reproduce("fig1", tmp_path, quick=True, seed=seed) for seed in (1, 1, 2))
    assert first["data"] == second["data"]
    assert first["data"] != other["data"]


def test_fig1_full_size_minibatch_is_ot() -> None:
    import ot

    points = make_points(0, target=(5, 5))
    weights = np.full(10, 0.1)
    np.testing.assert_allclose(fig1.plan_at(points, 10), ot.emd(weights, weights, points.cost), atol=1e-9)


def test_fig2_bound_is_lemma_1() -> None:
    points = np.random.default_rng(0).normal(size=(fig2.N, 2))
    outlier = np.array([5.0, 0.0])
    costs = fig2.compute(points, outlier[None], seed=0)
    mean = ((points - outlier) ** 2).sum(-1).mean()
    expected = 2 * fig2.TAU / 11 * (1 - math.exp(-mean / (2 * fig2.TAU)))
    assert costs.bound[0] == pytest.approx(expected)
    assert costs.uot[0] <= costs.bound[0] <= costs.ot[0]


def test_fig4_clouds_and_sides() -> None:
    clouds = fig4.make_clouds(10_000, 0)
    assert np.bincount(clouds.source_side).tolist() == [6400, 3600]
    assert np.bincount(clouds.target_side).tolist() == [3600, 6400]
    assert np.abs(np.abs(clouds.target[:, 0]) - 1).max() < fig4.REACH
    down = clouds.source - [0, 1]
    assert not clouds.wrong(down).any()
    assert clouds.wrong(down * [-1, 1]).all()
