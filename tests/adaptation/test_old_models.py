"""Models and runs that earlier versions wrote load and predict the same."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import numpy as np
import pytest

import jumbot
from tests.models import make

MODELS = Path(make.__file__).parent
VERSIONS = sorted(path.name for path in MODELS.iterdir() if path.is_dir() and path.name[0].isdigit())


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", ["table", "digits", "photographs"])
def test_predicts_the_same(version: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if kind == "photographs":
        pytest.importorskip("efficientnet_lite_pytorch", reason="EfficientNet-Lite0 is not installed")
        monkeypatch.setenv("JUMBOT_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / kind
    shutil.copytree(MODELS / version / kind, folder)
    for packed in folder.glob("*.gz"):
        packed.with_suffix("").write_bytes(gzip.decompress(packed.read_bytes()))
    model = jumbot.load(folder)
    data = getattr(make, kind)(2)
    np.testing.assert_allclose(
        model.predict_proba(data[0]), np.load(MODELS / version / f"{kind}.npy"), rtol=1e-4, atol=1e-6
    )
    assert set(model.predict(data[0])) <= set(data[1])


@pytest.mark.parametrize("version", VERSIONS)
def test_a_run_is_reported_and_not_repeated(version: str, tmp_path: Path) -> None:
    run = tmp_path / "table"
    shutil.copytree(MODELS / version / "table", run)
    assert "ant" in jumbot.load(run).report().read_text(encoding="utf-8")
    weights = (run / "model.safetensors").read_bytes()
    from jumbot.adaptation._queue import Pair, Run
    from jumbot.adaptation._variants import read_variant

    changes = {"steps": 3, "evaluate_every": 2, "features": 4, "batch_size": 9, "scale": None}
    changes |= {"proportions": "equal", "eta1": 0.01, "eta2": 0.5, "eta3": 1.0, "tau": 0.5}  # what 0.1 did
    assert Run(Pair("table", None, None), read_variant("jumbot"), 1, run, "table", changes).finished
    assert (run / "model.safetensors").read_bytes() == weights
