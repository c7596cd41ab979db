"""`jumbot.adapt`: what it leaves behind, and what it is told."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import jumbot
from jumbot.adaptation._networks import features
from jumbot.data._labels import encode_labels
from jumbot.errors import ArgumentError, NotFiniteError
from tests.refusals import refused


def test_the_report_is_written_where_out_is_given(blobs: Any, tmp_path: Path) -> None:
    jumbot.adapt(*blobs(), steps=3, out=tmp_path / "run")
    assert "<html" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")


def test_a_target_that_is_the_source_is_remarked_on(tmp_path: Path, rng: np.random.Generator) -> None:
    """The accuracy on its labels is not by labels that training never saw."""
    frame = pd.DataFrame(rng.normal(size=(40, 2)), columns=["width", "height"])
    frame.assign(label=np.arange(40) % 2).to_csv(tmp_path / "a.csv", index=False)
    (tmp_path / "sub").mkdir()
    with pytest.warns(jumbot.DataWarning, match="source itself"):
        model = jumbot.adapt(tmp_path / "a.csv", str(tmp_path / "sub" / ".." / "a.csv"), steps=2, method="source-only")
    assert any("source itself" in one for one in model.results["data_remarks"])
    frame.to_csv(tmp_path / "b.csv", index=False)
    jumbot.adapt(tmp_path / "a.csv", tmp_path / "b.csv", steps=2, method="source-only")


def test_no_temporary_folder_stays_behind(blobs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(NotFiniteError):
        jumbot.adapt(*blobs(), steps=50, learning_rate=1e30, evaluate_every=0)
    assert list(tmp_path.glob("jumbot-*")) == []
    model = jumbot.adapt(*blobs(), steps=2)
    assert len(list(tmp_path.glob("jumbot-*"))) == 1
    del model
    assert list(tmp_path.glob("jumbot-*")) == []


def test_evaluate_on_was_called_labelled(blobs: Any) -> None:
    source, target = blobs()
    model = jumbot.adapt(source, target.unlabelled(), evaluate_on=target, steps=3, method="jumbot", judge=False)
    with pytest.warns(DeprecationWarning, match="evaluate_on"):
        old = jumbot.adapt(source, target.unlabelled(), labelled=target, steps=3, method="jumbot", judge=False)
    assert old.results["accuracy"] == model.results["accuracy"]
    with refused("labelled"):
        jumbot.adapt(source, target, evaluate_on=target, labelled=target, steps=3, method="jumbot", judge=False)


def test_features_are_extracted_on_the_device(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JUMBOT_CACHE", str(tmp_path))
    seen: list[str] = []
    monkeypatch.setattr("jumbot.adaptation._asked.check_able", lambda *_, **__: None)
    monkeypatch.setattr("jumbot.adaptation._domains.device_of", lambda training: training.device)
    monkeypatch.setattr("jumbot.adaptation._training.accelerator.check_able", lambda *_: None)
    monkeypatch.setattr("jumbot.adaptation._training.accelerator.device_of", lambda training: "cpu")
    compute = features._compute

    def spy(module: nn.Module, domain: Any, read: Any, batch_size: int, device: str, rows: np.ndarray) -> Any:
        seen.append(device)
        return compute(module, domain, read, batch_size, "cpu", rows)

    monkeypatch.setattr(features, "_compute", spy)
    images = np.random.default_rng(0).integers(0, 255, (8, 70, 70, 3), dtype=np.uint8)
    backbone = nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten())
    jumbot.adapt(
        (images, [0, 1] * 4),
        images,
        backbone=backbone,
        freeze=True,
        steps=1,
        batch_size=4,
        device="cuda:1",
        recipe="photographs",
    )
    assert seen
    assert set(seen) == {"cuda:1"}


def test_an_error_of_the_first_process_is_everyones() -> None:
    from jumbot.adaptation._training.accelerator import decided_by_first

    class Alone:
        is_main_process, num_processes = True, 1

    assert decided_by_first(Alone(), lambda: 7) == 7

    def refuse() -> int:
        raise ArgumentError("out: taken")

    with refused("taken"):
        decided_by_first(Alone(), refuse)


def test_a_source_in_which_nothing_varies_is_refused() -> None:
    labels = np.arange(20) % 2
    for rows in (np.ones((20, 3)), 1e-300 * np.random.default_rng(0).normal(size=(20, 3))):
        with refused("source"):
            jumbot.adapt((rows, labels), rows, steps=1, method="jumbot", judge=False)


@pytest.mark.parametrize("names", [[False, True], [b"1", b"22"]])
def test_truth_values_and_bytes_are_predicted_as_such(names: Any, rng: np.random.Generator, tmp_path: Path) -> None:
    labels = np.array(names)[np.arange(40) % 2]
    rows = rng.normal(size=(40, 2)) + 6 * (labels == labels[1])[:, None]
    model = jumbot.adapt((rows, labels), rows, steps=30, method="jumbot", judge=False)
    model.save(tmp_path)
    for found in (model.predict(rows), jumbot.load(tmp_path).predict(rows)):
        assert found.dtype == labels.dtype
        assert (found == labels).mean() > 0.9


@pytest.mark.parametrize(
    "names",
    [
        np.array([" <=50K", " >50K"]),
        np.array(["a ", " b"], object),
        np.array(["x", "y"], "<U9"),
        np.array([7, "seven"], object),
        np.array([True, False], object),
        np.array([1.0, 2.0], object),
        np.array(["1", "02"], object),
    ],
)
def test_labels_are_predicted_as_they_were_given(names: np.ndarray, rng: np.random.Generator, tmp_path: Path) -> None:
    labels = names[np.arange(40) % 2]
    rows = rng.normal(size=(40, 2)) + 6 * (np.arange(40) % 2)[:, None]
    model = jumbot.adapt((rows, labels), (rows, labels), steps=30, method="jumbot", judge=False)
    assert model.results["accuracy"] > 0.9  # the target's labels are matched by name
    model.save(tmp_path)
    for found in (model.predict(rows), jumbot.load(tmp_path).predict(rows)):
        assert found.dtype == labels.dtype
        assert (found == labels).mean() > 0.9
        assert {type(label) for label in found.tolist()} == {type(label) for label in labels.tolist()}


@pytest.mark.parametrize("unit", ["M8[D]", "M8[us]", "M8[ns]", "m8[D]", "m8[ns]"])
@pytest.mark.parametrize("framed", [False, True])
def test_times_are_predicted_as_such(unit: str, framed: bool, rng: np.random.Generator, tmp_path: Path) -> None:
    """Neither as texts nor as nanoseconds."""
    labels = (np.array(["2020-01-01", "2021-01-01"], "M8[D]").astype(np.int64)).view(unit[0] + "8[D]").astype(unit)
    labels = labels[np.arange(40) % 2]
    rows = rng.normal(size=(40, 2)) + 6 * (np.arange(40) % 2)[:, None]
    source = pd.DataFrame({"x": rows[:, 0], "y": rows[:, 1], "day": labels}) if framed else (rows, labels)
    target = pd.DataFrame(rows, columns=["x", "y"]) if framed else rows
    how = {"label": "day"} if framed else {}
    model = jumbot.adapt(source, target, steps=30, method="jumbot", judge=False, **how)
    model.save(tmp_path)
    for loaded in (model, jumbot.load(tmp_path)):
        found = loaded.predict(target)
        assert found.dtype.kind == labels.dtype.kind
        assert (found == labels).mean() > 0.9


def test_times_are_members_of_sets(rng: np.random.Generator, tmp_path: Path) -> None:
    labels = np.array(["2020-01-01", "2021-01-01"], "M8[ns]")[np.arange(200) % 2]
    rows = rng.normal(size=(200, 2)) + 6 * (np.arange(200) % 2)[:, None]
    model = jumbot.adapt((rows, labels), rows, steps=30, method="source-only", out=tmp_path / "run")
    sets = model.predict_set(rows, coverage=0.9).sets
    assert np.mean([label in one for label, one in zip(labels, sets, strict=True)]) > 0.8


def test_texts_of_two_sources_stay_texts(rng: np.random.Generator) -> None:
    rows = rng.normal(size=(40, 2)) + 6 * (np.arange(40) % 2)[:, None]
    labels = [np.array(names)[np.arange(40) % 2] for names in (["1", "2"], ["1", "12"])]
    model = jumbot.adapt([(rows, labels[0]), (rows, labels[1])], rows, steps=2, method="jumbot", judge=False)
    assert model.predict(rows).dtype == "<U2"


def test_bytes_that_are_no_text_are_refused() -> None:
    with refused("labels"):
        encode_labels(np.array([b"\xff", b"a"]))


def test_bytes_as_objects_are_predicted_as_bytes(rng: np.random.Generator) -> None:
    labels = np.array([b"1", b"22"], object)[np.arange(40) % 2]  # as h5py reads texts
    rows = rng.normal(size=(40, 2)) + 6 * (np.arange(40) % 2)[:, None]
    found = jumbot.adapt((rows, labels), rows, steps=30, method="jumbot", judge=False).predict(rows)
    assert (found == labels).mean() > 0.9


def test_labels_that_are_one_hot_are_distinguished_from_numbers() -> None:
    rows, labels = np.ones((20, 3)), np.arange(20) % 3
    with refused(r"\(20, 3\).*y\.argmax\(1\)"):
        jumbot.adapt((rows, np.eye(3)[labels]), rows, method="jumbot", judge=False)
    with refused("task='regression'"):
        jumbot.adapt((rows, 2 * np.eye(3)[labels]), rows, method="jumbot", judge=False)


def test_a_backbone_that_is_neither_a_name_nor_a_module_is_refused() -> None:
    rows, labels = np.ones((20, 3)), np.arange(20) % 3
    for backbone, kind in ((nn.Linear, "Linear"), (lambda x: x, "function")):
        with refused(f"backbone:.*{kind}.*torch.nn.Module"):
            jumbot.adapt((rows, labels), rows, backbone=backbone, method="jumbot", judge=False)  # type: ignore[arg-type]


def test_a_dataset_with_nan_is_refused_by_its_column(rng: np.random.Generator) -> None:
    rows = rng.normal(size=(20, 3)).astype(np.float32)
    rows[4, 1] = np.nan
    data = TensorDataset(torch.from_numpy(rows), torch.arange(20) % 3)
    with refused("source"):
        jumbot.adapt(data, rows[:4], method="jumbot", judge=False)
