"""A model that ships: the module and the exported files give what `predict_proba` gives, for batches of any size."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import jumbot
from jumbot.adaptation._export import describe
from jumbot.adaptation._model import Model
from jumbot.cli import main
from jumbot.errors import MissingPackageError
from tests.refusals import refused

RNG = np.random.default_rng(0)
Y = np.arange(60) % 3
ROWS = RNG.normal(50, 20, size=(60, 4)) + 60 * np.eye(4)[Y]
PICTURES = RNG.integers(0, 255, (12, 20, 24, 3), dtype=np.uint8)
SIGNALS = RNG.normal(size=(12, 2, 32)).astype(np.float32)
TOKENS = RNG.integers(0, 5, (12, 6))


def _run(file: Path, x: np.ndarray) -> np.ndarray:
    if file.suffix == ".onnx":
        onnxruntime = pytest.importorskip("onnxruntime")
        session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
        (found,) = session.run(["probabilities"], {"input": x})
        return np.asarray(found)
    with torch.no_grad(), file.open("rb") as handle:
        return np.asarray(torch.export.load(handle).module()(torch.from_numpy(x)))


class _Embed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(5, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.table(x).mean(1)


@pytest.fixture(scope="module")
def rows() -> Model:
    return jumbot.adapt((ROWS, Y), ROWS + 3, steps=10, standardise="source", method="jumbot")


@pytest.fixture(scope="module")
def digits() -> Model:
    return jumbot.adapt(
        (PICTURES, Y[:12]), PICTURES, steps=2, source_steps=1, batch_size=6, method="jumbot", judge=False
    )


@pytest.mark.parametrize("suffix", ["onnx", "pt2"])
def test_files_agree_with_predict_proba(rows: Model, digits: Model, suffix: str, tmp_path: Path) -> None:
    assert rows.temperature != 1.0
    x = (ROWS[:7] + 9).astype(np.float32)
    found = _run(rows.export(tmp_path / f"rows.{suffix}"), x)
    np.testing.assert_allclose(found, rows.predict_proba(x), atol=1e-5)
    pictures = PICTURES[:7].transpose(0, 3, 1, 2).astype(np.float32) / 255
    found = _run(digits.export(tmp_path / f"pictures.{suffix}"), pictures)
    np.testing.assert_allclose(found, digits.predict_proba(PICTURES[:7]), atol=1e-5)


def test_signals_tokens_and_views(tmp_path: Path) -> None:
    signals = jumbot.adapt(
        (SIGNALS, Y[:12]), SIGNALS, kind="signal", steps=2, batch_size=6, method="jumbot", judge=False
    )
    found = _run(signals.export(tmp_path / "s.pt2"), SIGNALS[:3])
    np.testing.assert_allclose(found, signals.predict_proba(SIGNALS[:3]), atol=1e-5)
    tokens = jumbot.adapt(
        (TOKENS, Y[:12]), TOKENS, kind="raw", backbone=_Embed(), steps=2, batch_size=6, method="jumbot", judge=False
    )
    np.testing.assert_allclose(
        _run(tokens.export(tmp_path / "t.pt2"), TOKENS[:5]), tokens.predict_proba(TOKENS[:5]), atol=1e-5
    )
    backbone = nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten())
    short = {"steps": 2, "batch_size": 6, "size": 256}
    views = jumbot.adapt(
        (PICTURES, Y[:12]), PICTURES, backbone=backbone, recipe="photographs", views="ten-crop", judge=False, **short
    )
    pictures = torch.from_numpy(PICTURES[:3].transpose(0, 3, 1, 2))  # bytes of another size than the network's
    np.testing.assert_allclose(views.module()(pictures).detach(), views.predict_proba(PICTURES[:3]), atol=1e-5)


def test_numbers_come_in_their_units(tmp_path: Path) -> None:
    values = 1000 + 50 * ROWS[:, :2]
    model = jumbot.adapt((ROWS, values), ROWS, task="regression", steps=5, method="jumbot", judge=False)
    x = ROWS[:7].astype(np.float32)
    np.testing.assert_allclose(_run(model.export(tmp_path / "n.pt2"), x), model.predict(x), rtol=1e-5)


def test_a_frozen_backbone_is_inside(tmp_path: Path) -> None:
    backbone = nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(2), nn.Flatten())
    model = jumbot.adapt(
        (PICTURES, Y[:12]),
        PICTURES,
        backbone=backbone,
        freeze=True,
        steps=2,
        batch_size=6,
        method="jumbot",
        judge=False,
    )
    assert model.extractor is not None
    pictures = PICTURES[:5].transpose(0, 3, 1, 2).astype(np.float32) / 255
    found = _run(model.export(tmp_path / "f.pt2"), pictures)
    np.testing.assert_allclose(found, model.predict_proba(PICTURES[:5]), atol=1e-5)


def test_a_table_with_categories_takes_the_encoded_matrix_and_says_so(tmp_path: Path) -> None:
    frame = pd.DataFrame({"length": ROWS[:, 0], "colour": np.array(["red", "blue", "green"])[Y], "kind": Y})
    model = jumbot.adapt(frame, frame.drop(columns="kind"), label="kind", steps=5, method="jumbot", judge=False)
    later = pd.DataFrame({"length": [60.0, np.nan], "colour": ["green", "violet"]})
    with pytest.warns(UserWarning, match="violet"):
        wanted = model.predict_proba(later)
    encoded = np.array([[60.0, 0, 1, 0], [np.nan, 0, 0, 0]], np.float32)  # length, colour=blue, =green, =red
    np.testing.assert_allclose(_run(model.export(tmp_path / "c.pt2"), encoded), wanted, atol=1e-5)
    extra = {"jumbot.json": ""}
    with (tmp_path / "c.pt2").open("rb") as handle:
        torch.export.load(handle, extra_files=extra)
    metadata = json.loads(extra["jumbot.json"])
    assert json.loads(metadata["features"]) == ["length", "colour=blue", "colour=green", "colour=red"]
    assert "encoded matrix" in metadata["input"]
    assert json.loads(metadata["classes"]) == ["0", "1", "2"]


def test_the_onnx_file_names_its_batch_and_its_classes(rows: Model, tmp_path: Path) -> None:
    onnx: Any = pytest.importorskip("onnx")
    made = onnx.load(rows.export(tmp_path / "m.onnx"))
    onnx.checker.check_model(made)
    assert made.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    assert {p.key: p.value for p in made.metadata_props}["classes"] == '["0", "1", "2"]'


def test_what_cannot_be_exported(rows: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with refused("'model.h5'.*.pt2"):
        rows.export(tmp_path / "model.h5")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingPackageError, match=r"jumbot\[export\]"):
        rows.export(tmp_path / "model.onnx")

    class Picky(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * (1.0 if float(x.sum()) > 0 else 2.0)

    model = jumbot.adapt((ROWS, Y), ROWS, backbone=Picky(), steps=1, method="jumbot", judge=False)
    with refused("export"):
        model.export(tmp_path / "picky.pt2")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", ["onnx", "pt2"])
def test_class_sizes_are_in_module_and_files(rows: Model, suffix: str, tmp_path: Path) -> None:
    """What is added to logits for the class sizes of the target changes predictions everywhere, or nowhere."""
    sized = replace(rows, temperature=1.5, offset=(0.0, 3.0, -3.0))
    x = np.linspace(ROWS.min(), ROWS.max(), 400).reshape(100, 4).astype(np.float32)
    wanted = sized.predict_proba(x)
    assert (wanted.argmax(1) != rows.predict_proba(x).argmax(1)).any()
    assert sized.predict(x).tolist() == [int(sized.classes[c]) for c in wanted.argmax(1)]
    np.testing.assert_allclose(sized.module()(torch.from_numpy(x)).detach(), wanted, atol=1e-5)
    np.testing.assert_allclose(_run(sized.export(tmp_path / f"rows.{suffix}"), x), wanted, atol=1e-5)
    again = jumbot.load(sized.save(tmp_path / "model"))
    np.testing.assert_array_equal(again.predict(x), sized.predict(x))
    equal = replace(sized, offset=None)
    np.testing.assert_array_equal(sized.predict(x, prior="equal"), equal.predict(x))


def test_the_module_is_a_copy(rows: Model) -> None:
    module = rows.module()
    wanted = rows.predict_proba(ROWS)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.zero_()
    np.testing.assert_array_equal(rows.predict_proba(ROWS), wanted)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    jumbot.adapt((ROWS, Y), ROWS, steps=2, out=tmp_path / "run", report=False, method="jumbot", judge=False)
    assert main(["export", str(tmp_path / "run"), str(tmp_path / "m.pt2")]) == 0
    assert "in: (batch, 4) float32 rows" in capsys.readouterr().out
    assert main(["export", str(tmp_path / "run"), str(tmp_path / "m.pt2")]) == 2
    assert "already exists" in capsys.readouterr().err


@pytest.mark.parametrize("ending", [".pt2", ".onnx"])
def test_a_table_in_another_order_than_the_file_says_is_answered_with_nan(tmp_path: Path, ending: str) -> None:
    """Numbers first, as a reader may think, ran and was wrong."""
    if ending == ".onnx":
        pytest.importorskip("onnxscript")
        pytest.importorskip("onnxruntime")
    table = pd.DataFrame(
        {"colour": ["red", "green", "blue"] * 20, "length": np.arange(60) + 0.5, "kind": ["a", "b", "b"] * 20}
    )
    model = jumbot.adapt(table, table.drop(columns="kind"), label="kind", steps=5)
    features = ["colour=blue", "colour=green", "colour=red", "length"]
    assert json.loads(describe(model)["features"]) == features
    file = model.export(tmp_path / f"table{ending}")
    right = np.array([[0, 0, 1, 7.5], [0, 1, 0, 8.5]], np.float32)
    later = pd.DataFrame({"length": [7.5, 8.5], "colour": ["red", "green"]})
    np.testing.assert_allclose(_run(file, right), model.predict_proba(later), atol=1e-5)
    assert np.isnan(_run(file, right[:, [3, 0, 1, 2]])).all()
