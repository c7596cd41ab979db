"""Tiny generated data in the published layouts, for the items that train networks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from jumbot.data import _benchmarks as benchmarks


def tiny_digits(root: Path) -> Path:
    rng = np.random.default_rng(0)
    for name, shape in (("usps", (16, 16)), ("mnist", (28, 28)), ("mnistm", (28, 28, 3)), ("svhn", (28, 28, 3))):
        (root / name).mkdir(parents=True)
        for split in ("train", "test"):
            pixels = rng.integers(0, 255, (40, *shape), dtype=np.uint8)
            np.savez(root / name / f"{split}.npz", images=pixels, labels=np.arange(40) % 10)
    return root


def tiny_images(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    image = pytest.importorskip("PIL.Image")
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
                (root / name / folder / kind).mkdir(parents=True)
                for number in range(2):
                    pixels = rng.integers(0, 255, (30, 40, 3), dtype=np.uint8)
                    image.fromarray(pixels).save(root / name / folder / kind / f"{number}.jpg")
    return root
