"""The paper's tables end to end, on tiny generated data of the published layouts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from jumbot.adaptation.runs.folder import read_config
from jumbot.adaptation.runs.grid import Run
from jumbot.data import benchmarks
from jumbot.errors import ArgumentError, JumbotError
from jumbot.paper import digits_table as digits
from jumbot.paper import images_table as images
from jumbot.paper import reproduce

image = pytest.importorskip("PIL.Image")


@pytest.fixture
def tiny_digits(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    for name, shape in (("usps", (16, 16)), ("mnist", (28, 28)), ("mnistm", (28, 28, 3)), ("svhn", (28, 28, 3))):
        (tmp_path / "data" / name).mkdir(parents=True)
        for split in ("train", "test"):
            pixels = rng.integers(0, 255, (40, *shape), dtype=np.uint8)
            np.savez(tmp_path / "data" / name / f"{split}.npz", images=pixels, labels=np.arange(40) % 10)
    return tmp_path / "data"


def test_digits(tiny_digits: Path, tmp_path: Path) -> None:
    options = {
        "root": tiny_digits, "tasks": list(digits.TASKS), "methods": ["jumbot"], "source_steps": 1, "steps": 2,
        "batch_size": 10, "show": False,
    }  # fmt: skip
    record = reproduce("digits", tmp_path / "out", quick=True, **options)
    assert [run["task"] for run in record["data"]["runs"]] == list(digits.TASKS)
    assert [claim["measured"]["paper"] for claim in record["claims"]] == [98.2, 97.0, 98.9]
    assert json.loads((tmp_path / "out" / "digits.json").read_text()) == record
    config = read_config(tmp_path / "out" / "digits" / "S-M" / "jumbot-ones-source_steps1-steps2-seed0")
    assert config["input"]["size"] == [32, 32]
    assert config["method"]["reference"] == "ones"
    assert (config["method"]["eta1"], config["method"]["tau"], config["method"]["epsilon"]) == (0.1, 1.0, 0.1)
    words = "jumbot reproduce digits --task S-M --methods jumbot --seed 0 --reference ones"
    assert config["command"] == f"{words} --steps 2 --quick"
    again = reproduce("digits", tmp_path / "out", quick=True, **options)
    assert again["data"] == record["data"]
    lines = (tmp_path / "out" / "digits.md").read_text().splitlines()
    assert [line.split(" | ")[:2] for line in lines[2:]] == [[f"| {t}", "jumbot-ones"] for t in sorted(digits.TASKS)]
    assert all(f"| {digits.PAPER['jumbot'][line.split()[1]]} |" in line for line in lines[2:])
    assert all("| 1 steps + 2 steps |" in line for line in lines[2:])


def test_the_papers_schedule_of_digits() -> None:
    from jumbot.adaptation.config import make_config

    training = make_config(None, "jumbot", "digits", {}).training
    assert training.lengths(7291) == (14, 140, 1400)
    assert (training.optimizer, training.learning_rate, training.schedule) == ("adam", 2e-4, "constant")


def test_rows_of_the_tables_have_the_printed_means() -> None:
    means = {"office-home": {"jumbot": 70.0, "deepjdot": 63.5, "rot": 64.3, "alda": 65.8, "cdan-e": 66.6}}
    means["office-home-partial"] = {"jumbot": 75.5, "ba3us": 73.6, "etn": 70.4, "pada": 62.1, "deepjdot": 60.9}
    for item, rows in means.items():
        for method, mean in rows.items():
            assert np.mean(images.PAPER[item][method]) == pytest.approx(mean, abs=0.06), (item, method)


@pytest.fixture
def tiny_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    classes = ["Alarm_Clock", "Bike", "TV"]
    layout = {"office-home": ["Art", "Clipart", "Product", "Real_World"], "visda-2017": ["train", "validation"]}
    rng = np.random.default_rng(0)
    for name, folders in layout.items():
        facts = benchmarks.BENCHMARKS[name]
        parts = tuple(replace(part, images=2 * len(classes)) for part in facts.parts)
        small = replace(facts, classes=len(classes), parts=parts, partial=())
        monkeypatch.setitem(benchmarks.BENCHMARKS, name, small)
        for folder in folders:
            for kind in classes:
                (tmp_path / name / folder / kind).mkdir(parents=True)
                for number in range(2):
                    pixels = rng.integers(0, 255, (30, 40, 3), dtype=np.uint8)
                    image.fromarray(pixels).save(tmp_path / name / folder / kind / f"{number}.jpg")
    return tmp_path


@pytest.mark.parametrize(
    ("item", "task", "folder", "change"),
    [
        ("office-home", "Art-Real World", "office-home", {}),
        ("office-home-partial", "Clipart-Product", "office-home", {"partial": "first:2"}),
        pytest.param("visda", "train-validation", "visda-2017", {}, marks=pytest.mark.slow),
    ],
)
def test_images(tiny_images: Path, tmp_path: Path, item: str, task: str, folder: str, change: dict[str, str]) -> None:
    from jumbot.data.torchvision import import_torchvision

    try:
        import_torchvision()
    except JumbotError as error:
        pytest.skip(str(error))
    record = reproduce(
        item, tmp_path / "out", quick=True, root=tiny_images / folder, tasks=[task], batch_size=3, show=False, **change
    )
    [run] = record["data"]["runs"]
    assert run["paper"] == images.PAPER[item]["jumbot"][images.TASKS[item].index(task)]
    config = read_config(tmp_path / "out" / item / task / "jumbot-ones-seed0")
    assert config["method"]["reference"] == "ones"  # as published, and as the help says
    assert config["input"]["size"] == [256, 256]
    assert config["network"]["bottleneck"] is True
    results = json.loads((tmp_path / "out" / item / task / "jumbot-ones-seed0" / "results.json").read_text())
    assert results["n"] == (4 if change else 6)
    assert len(results["classes"]) == 3
    model = json.loads((tmp_path / "out" / item / task / "jumbot-ones-seed0" / "model.json").read_text())
    assert model["crops"][1] == ("centre-crop" if change else "ten-crop")


def test_absent_data_is_named(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="--data"):
        reproduce("office-home", tmp_path)
    with pytest.raises(ArgumentError, match=r"task.*X-Y"):
        reproduce("digits", tmp_path, tasks=["X-Y"])
    with pytest.raises(ArgumentError, match="fig1 trains nothing"):
        reproduce("fig1", tmp_path, seeds=3)
    with pytest.raises(JumbotError, match=r"usps"):
        reproduce("digits", tmp_path, root=tmp_path / "nowhere")


def test_reference_is_for_jumbot_alone(tiny_images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """--reference beside DeepJDOT, which has none, is no error."""
    seen: dict[str, object] = {}

    def note(runs: list[Run], **_: object) -> dict[str, str]:
        seen.update({run.variant.method: run.changes.get("reference") for run in runs})
        return {"folder": "enough"}

    monkeypatch.setattr(images, "train_all", note)
    with pytest.raises(JumbotError, match="enough"):
        reproduce(
            "office-home", tmp_path / "out", root=tiny_images / "office-home", tasks=["Art-Clipart"],
            methods=["deepjdot", "jumbot", "source-only"], reference="product", show=False,
        )  # fmt: skip
    assert seen == {"deepjdot": None, "jumbot": "product", "source-only": None}
