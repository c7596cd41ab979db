"""Several sources, and a few labels of the target."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import jumbot
from benchmarks import sources as benchmark
from jumbot.adaptation._evaluation.diagnosis import diagnose
from jumbot.data import as_domain
from jumbot.data._paths import join_domains
from jumbot.methods._joint_transport import SourceWeights
from tests.refusals import refused

SHORT: dict[str, Any] = {"steps": 12, "seed": 0}


def _clusters(seed: int, n: int = 120, shift: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    return 4 * np.eye(3)[y] + 0.7 * rng.normal(size=(n, 3)) + shift, y


def test_shares_of_the_sources_follow_the_plan_by_hand() -> None:
    weights = SourceWeights(2)
    origin = torch.tensor([0, 0, 1])
    weights.observe(torch.tensor([[0.1, 0.2], [0.1, 0.2], [0.1, 0.1]]), origin)
    weights.settle()
    torch.testing.assert_close(weights.shares, torch.tensor([0.7 * 0.5 + 0.3 * 0.75, 0.7 * 0.5 + 0.3 * 0.25]))
    counted = weights(origin)
    assert float(counted.mean()) == pytest.approx(1)
    assert float(counted[2] / counted[:2].sum()) == pytest.approx(float(weights.shares[1] / weights.shares[0]))


@pytest.mark.parametrize("method", ["jumbot", "deepjdot", "source-only", "dann", "mcc"])
def test_every_method_takes_several_sources_and_target_labels(method: str) -> None:
    few = _clusters(3, 6, shift=1.0)
    target = _clusters(2, shift=1.0)
    model = jumbot.adapt([_clusters(0), _clusters(1)], target, labelled_target=few, method=method, **SHORT)
    assert model.results["n"] == len(target[1])
    assert model.predict(target[0]).shape == target[1].shape


def test_sources_of_any_kind_are_joined_by_name(tmp_path: Any) -> None:
    (X, y), (Z, w) = _clusters(0), _clusters(1)
    names = ["a", "b", "c"]
    one, two = pd.DataFrame(X, columns=names).assign(label=y), pd.DataFrame(Z, columns=names).assign(label=w)
    one.to_csv(tmp_path / "one.csv", index=False)
    two[["label", "c", "b", "a"]].to_csv(tmp_path / "two.csv", index=False)
    target, _ = _clusters(2)
    ways: list[tuple[Any, Any]] = [
        ([(X, y), (Z, w)], target),
        ([(torch.from_numpy(X), torch.from_numpy(y)), (torch.from_numpy(Z), w)], torch.from_numpy(target)),
        ([one, two[["c", "label", "a", "b"]]], pd.DataFrame(target, columns=names)),
        ([tmp_path / "one.csv", tmp_path / "two.csv"], pd.DataFrame(target, columns=names)),
    ]
    found = [
        jumbot.adapt(source, there, **SHORT, method="jumbot", judge=False).predict_proba(there)
        for source, there in ways
    ]
    for probabilities in found[1:]:
        np.testing.assert_allclose(probabilities, found[0], rtol=1e-3, atol=1e-4)
    with refused("--drop"):
        jumbot.adapt(
            [one, two.rename(columns={"a": "z"})],
            pd.DataFrame(target, columns=names),
            **SHORT,
            method="jumbot",
            judge=False,
        )


def test_classes_of_all_sources_are_classes() -> None:
    (X, y), (Z, w) = _clusters(0), _clusters(1)
    model = jumbot.adapt([(X[y < 2], y[y < 2]), (Z, w)], _clusters(2)[0], **SHORT, method="jumbot", judge=False)
    assert model.classes == ("0", "1", "2")
    with refused("source"):
        jumbot.adapt([], X, **SHORT, method="jumbot", judge=False)


def test_sources_whose_classes_have_nothing_in_common_are_named() -> None:
    rows = np.zeros((2, 3))
    parts = [as_domain((rows, labels), name=name) for name, labels in (("north", ["cat", "dog"]), ("south", [0, 1]))]
    with pytest.warns(UserWarning, match=r"north:.*\(cat, dog\).*\(0, 1\)"):
        assert len(join_domains(parts).classes) == 4


def test_sources_that_count_their_classes_from_0_and_from_1_are_named() -> None:
    rows = np.zeros((3, 3))
    parts = [as_domain((rows, labels), name=name) for name, labels in (("north", [0, 1, 2]), ("south", [1, 2, 3]))]
    with pytest.warns(UserWarning, match="south:.*1"):
        assert len(join_domains(parts).classes) == 4


def test_other_units_of_rows_to_evaluate_or_to_train_on_are_named() -> None:
    X, y = _clusters(0)
    for name in ("evaluate_on", "labelled_target"):
        with pytest.warns(UserWarning, match=f"{name}:.*1"):
            jumbot.adapt((X, y), X + 0.5, **{name: ((X + 0.1) * [1000, 1, 1], y)}, **SHORT)


def test_several_sources_of_numbers() -> None:
    X, _ = _clusters(0)
    pair = X, X[:, 0] + 0.5
    model = jumbot.adapt(
        [pair, pair], X, task="regression", labelled_target=(X[:5], X[:5, 0]), **SHORT, method="jumbot", judge=False
    )
    assert model.predict(X).shape == (len(X),)


@pytest.mark.slow
def test_a_poor_source_does_not_ruin_a_good_one() -> None:
    good, (X, y), target = _clusters(0, 300), _clusters(1, 300), _clusters(2, 300, shift=0.5)
    poor = X, np.random.default_rng(0).permutation(y)
    alone, both = (
        jumbot.adapt(source, target, steps=200, seed=0, method="jumbot", judge=False).results["accuracy"]
        for source in (good, [good, poor])
    )
    assert both > alone - 0.03


def test_labels_of_the_target_teach_what_the_source_cannot() -> None:
    """The classes of the target stand in the other's place: a few labels say so, and no other way could."""
    X, y = _clusters(0, 300)
    source, target = (X, y), (X[:, [1, 0, 2]], y)
    few = np.concatenate([np.flatnonzero(y == c)[:5] for c in range(3)])
    how: dict[str, Any] = {"steps": 100, "seed": 0, "hidden": (32,)}
    without = jumbot.adapt(source, target, **how, method="jumbot", judge=False)
    taught = jumbot.adapt(source, target, labelled_target=(target[0][few], y[few]), **how, method="jumbot", judge=False)
    assert without.results["n"] == 300
    assert taught.results["n"] == 300 - len(few)  # evaluation never uses these rows
    assert taught.results["accuracy"] > without.results["accuracy"]


def test_target_labels_that_cannot_be_used_are_refused() -> None:
    X, y = _clusters(0)
    for given, message in (
        (X[:3], "labelled_target: labelled_target has no labels"),
        ((X[:2], ["0", "fox"]), "labelled_target: got fox, but the source has no such class"),
        ((X[:2], ["0", None]), "labelled_target: row 1 has no label"),
    ):
        with refused(message):
            jumbot.adapt((X, y), X, labelled_target=given, **SHORT, method="jumbot", judge=False)


@pytest.fixture(scope="module")
def of_two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A run on one table of two hospitals, of which the second lies far away, and the table."""
    folder = tmp_path_factory.mktemp("hospitals")
    (X, y), (Z, w) = _clusters(0), _clusters(1, shift=30.0)
    frame = pd.DataFrame(np.concatenate([X, Z]), columns=["a", "b", "c"])
    frame = frame.assign(hospital=["north"] * len(X) + ["south"] * len(Z), label=np.concatenate([y, w]))
    frame.sample(frac=1, random_state=0).to_csv(folder / "all.csv", index=False)
    target, truth = _clusters(2, shift=0.5)
    pd.DataFrame(target, columns=["a", "b", "c"]).assign(label=truth).to_csv(folder / "target.csv", index=False)
    pd.DataFrame(target, columns=["a", "b", "c"]).assign(label=truth).head(6).to_csv(folder / "few.csv", index=False)
    jumbot.adapt(
        folder / "all.csv",
        folder / "target.csv",
        domain="all",
        domain_column="hospital",
        out=folder / "run",
        labelled_target=folder / "few.csv",
        steps=60,
        seed=0,
        method="jumbot",
        judge=False,
    )
    return folder / "run", folder / "all.csv"


def test_the_plan_says_how_much_of_each_sample_comes_from_which_source(of_two: tuple[Path, Path]) -> None:
    run, _ = of_two
    sources = jumbot.load(run).diagnosis["sources"]
    assert sources["names"] == ["north", "south"]
    assert sources["shares"][0] > 0.8
    assert sum(sources["shares"]) == pytest.approx(1, abs=1e-5)
    rows = pd.read_csv(run / "predictions.csv")
    np.testing.assert_allclose(rows["from_north"] + rows["from_south"], 1, atol=1e-5)
    assert rows["from_north"].mean() == pytest.approx(sources["shares"][0], abs=1e-4)
    for c, shares in enumerate(sources["by_class"]):
        assert rows.loc[rows["label"] == c, "from_south"].mean() == pytest.approx(shares[1], abs=1e-4)
    page = (run / "report.html").read_text()
    assert "Which source the target comes from" in page
    assert "weights of the sources" in page.lower()


def test_shares_are_those_of_the_plan_by_hand() -> None:
    """Two sources on both sides of a target sample: exp(-distance / ...) apart, and none for the far one."""
    z = torch.tensor([[0.0, 0.0], [0.1, 0.0], [4.0, 0.0], [4.1, 0.0]]).repeat(2, 1)
    z[4:] += torch.tensor([0.0, 50.0])
    logits = torch.tensor([[9.0, 0.0], [0.0, 9.0], [0.0, 9.0]])
    target = torch.tensor([[0.0, 0.1], [4.0, 0.1], [4.1, 50.1]])
    found = diagnose(z, [0, 0, 1, 1] * 2, target, logits, origins=np.repeat([0, 1], 4))[0]
    assert found.source_shares is not None
    np.testing.assert_allclose(found.source_shares, [[1, 0], [1, 0], [0, 1]], atol=1e-3)
    np.testing.assert_allclose(found.class_proportions, [1 / 3, 2 / 3], atol=0.01)
    alike = diagnose(z[:4].repeat(2, 1), [0, 0, 1, 1] * 2, target[:2], logits[:2], origins=np.repeat([0, 1], 4))[0]
    assert alike.source_shares is not None
    np.testing.assert_allclose(alike.source_shares, 0.5, atol=0.02)


def test_shares_of_sources_of_numbers_see_wrong_numbers() -> None:
    X, _ = _clusters(0, 200)
    good, poor = (X, X[:, 0] + 0.5), (X, np.random.default_rng(0).permutation(X[:, 0]) + 0.5)
    model = jumbot.adapt([good, poor], X + 0.1, task="regression", steps=100, seed=0, method="jumbot", judge=False)
    assert model.diagnosis["sources"]["shares"][0] > 0.55
    assert model.diagnosis["sources"]["by_class"] == []


def test_a_column_of_domains_gives_what_a_list_gives(of_two: tuple[Path, Path]) -> None:
    run, table = of_two
    frame = pd.read_csv(table)
    parts = [frame[frame["hospital"] == name].drop(columns="hospital") for name in ("north", "south")]
    listed = join_domains([as_domain(part, name=n) for part, n in zip(parts, ("north", "south"), strict=True)])
    found = as_domain(str(table), domain="all", domain_column="hospital")
    assert found.sources == listed.sources == ("north", "south")
    assert found.name == "north + south"
    for s in (0, 1):
        np.testing.assert_array_equal(found.labels[found.origins == s], listed.labels[listed.origins == s])  # type: ignore[index]
    as_frame = as_domain(frame.rename(columns={"hospital": "domain"}), domain="all")
    np.testing.assert_array_equal(as_frame.origins, found.origins)
    one = as_domain(f"{table}:north", domain_column="hospital")
    assert (len(one), one.sources) == (120, ())
    both = join_domains([found, as_domain(parts[0], name="again")])
    assert both.sources == ("north", "south", "again")
    assert np.bincount(both.origins).tolist() == [120, 120, 120]
    assert json.loads((run / "config.json").read_text())["request"]["reading"]["domain_column"] == "hospital"


def test_domains_that_cannot_be_sources_are_refused(of_two: tuple[Path, Path], tmp_path: Path) -> None:
    _, table = of_two
    how: dict[str, Any] = {"domain_column": "hospital", **SHORT}
    for given, message in (
        ({"source": table, "target": table}, r"^\S+: contains 2 domains .*domain='all'[^\n]*$"),
        ({"source": table, "target": f"{table}:south", "domain": "all"}, "target: south"),
        ({"source": f"{table}:north", "target": table, "domain": "all"}, "so does domain='all'"),
        ({"source": table, "target": table, "domain": "none"}, "domain_column cannot be given with domain='none'"),
        ({"source": table, "target": table, "domain_column": "ward"}, "domain_column: column 'ward'"),
        ({"source": _clusters(0), "target": table}, "domain_column: got 'hospital'"),
    ):
        with refused(message):
            jumbot.adapt(**{**how, **given})
    frame = pd.read_csv(table)
    frame.loc[3, "hospital"] = None
    with refused(r"\b3\b"):
        as_domain(frame, domain="all", domain_column="hospital")


def test_resuming_remembers_the_labelled_target(of_two: tuple[Path, Path]) -> None:
    run, _ = of_two
    assert jumbot.load(run).results["n"] == 114
    again = jumbot.adapt(out=run, resume=True, report=False)  # a forgotten file would be other data, and refused
    assert again.results["n"] == 114
    config = json.loads((run / "config.json").read_text())
    assert config["request"]["labelled_target"].endswith("few.csv")
    config["request"]["labelled_target"] = None
    (run / "config.json").write_text(json.dumps(config))
    with refused("labelled_target"):
        jumbot.adapt(out=run, resume=True, report=False)


@pytest.mark.slow
@pytest.mark.parametrize("task", ["amazon+caltech10-webcam", "dslr+caltech10-amazon"])
def test_shuffled_labels_of_a_second_source_cost_at_most_three_points(task: str) -> None:
    file = Path(os.environ.get("JUMBOT_DATA", "nowhere")) / "office_caltech10" / "features.npz"
    if not file.exists():
        pytest.skip("needs the features of Office-Caltech10 in JUMBOT_DATA")
    sources, _, target = task.partition("-")
    row = benchmark.row_of((*sources.split("+"), target), str(file))
    assert row["shuffled"] > row["alone"] - 0.03
    assert row["share_of_shuffled"] < 0.2
