"""Writes the models that `test_old_models.py` loads, with the version of jumbot that is installed.

Run once per release, `python tests/models/make.py 0.1`, and keep what it wrote: later versions must read it.
"""

from __future__ import annotations

import gzip
import shutil
import sys
from pathlib import Path

import numpy as np

import jumbot


def table(seed: int, n: int = 24) -> tuple[np.ndarray, np.ndarray]:
    """Three blobs in the space, and the names of their classes."""
    kinds = np.arange(n) % 3
    points = 3 * np.eye(3)[kinds] + 0.3 * np.random.default_rng(seed).normal(size=(n, 3))
    return points.round(3), np.array(["ant", "bee", "cow"])[kinds]


def digits(seed: int, n: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """Grey images of 8 x 8, dark or bright."""
    kinds = np.arange(n) % 2
    noise = np.random.default_rng(seed).integers(0, 60, (n, 8, 8))
    return (noise + 150 * kinds[:, None, None]).astype(np.uint8), kinds + 3


def photographs(seed: int, n: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """Colour images of 70 x 70, reddish or greenish."""
    kinds = np.arange(n) % 2
    images = np.random.default_rng(seed).integers(0, 90, (n, 70, 70, 3))
    images[np.arange(n), :, :, kinds] += 120
    return images.astype(np.uint8), np.array(["red", "green"])[kinds]


def main(folder: Path) -> None:
    short = {"steps": 3, "evaluate_every": 2, "seed": 1}
    run = jumbot.adapt(table(0), table(1), features=4, batch_size=9, out=folder / "table", **short)
    np.save(folder / "table.npy", run.predict_proba(table(2)[0]))

    small = jumbot.adapt(digits(0), digits(1), features=4, source_steps=1, batch_size=6, **short)
    for parameter in small.network.parameters():
        if parameter.ndim == 4:  # two values compress well, and the file stays small
            parameter.data = 0.1 * (parameter.data > 0).float() - 0.05
    small.save(folder / "digits")
    np.save(folder / "digits.npy", small.predict_proba(digits(2)[0]))
    weights = folder / "digits" / "model.safetensors"
    with weights.open("rb") as plain, gzip.GzipFile(f"{weights}.gz", "wb", mtime=0) as packed:
        shutil.copyfileobj(plain, packed)
    weights.unlink()

    pretrained = jumbot.adapt(photographs(0), photographs(1), features=2, batch_size=4, **short)
    pretrained.save(folder / "photographs")
    np.save(folder / "photographs.npy", pretrained.predict_proba(photographs(2)[0]))


if __name__ == "__main__":
    main(Path(__file__).parent / sys.argv[1])
