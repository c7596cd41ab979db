"""M-MNIST: the digits of MNIST blended with photographs, by the recipe of Ganin et al. (2016)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from jumbot.data.folders import images_below
from jumbot.data.images import decode
from jumbot.errors import ArgumentError


def make_mnistm(images: np.ndarray, folder: str | Path, seed: int | Sequence[int] = 0) -> np.ndarray:
    """`(n, h, w, 3)` bytes: `|crop - digit|` in each channel, the crop of digit size from a random photograph.

    `images` is `(n, h, w)` uint8. The photograph, and the place in it, are drawn for each digit from `seed`; a
    photograph smaller than the digit is enlarged until it covers it. One photograph is in memory at a time.

    >>> import tempfile, PIL.Image
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     PIL.Image.new("RGB", (40, 30), (250, 100, 0)).save(Path(folder) / "wall.png")
    ...     make_mnistm(np.full((1, 28, 28), 200, np.uint8), folder)[0, 0, 0].tolist()
    [50, 100, 200]
    """
    images = np.asarray(images)
    if images.ndim != 3 or images.dtype != np.uint8:
        raise ArgumentError(f"images: {images.dtype} of shape {images.shape}; give (n, h, w) uint8 digits.")
    folder = Path(folder)
    if not folder.is_dir():
        raise ArgumentError(f"photographs: {folder} is no folder.")
    photographs = images_below(folder)
    if not photographs:
        raise ArgumentError(f"photographs: {folder} holds no images.")
    rng = np.random.default_rng(seed)
    chosen = rng.integers(len(photographs), size=len(images))
    place = rng.random((len(images), 2))
    height, width = images.shape[1:]
    made = np.empty((*images.shape, 3), np.uint8)
    for number, name in enumerate(photographs):
        rows = np.flatnonzero(chosen == number)
        if not rows.size:
            continue
        photograph = _covering(folder / name, height, width)
        tops = (place[rows, 0] * (photograph.shape[0] - height + 1)).astype(int)
        lefts = (place[rows, 1] * (photograph.shape[1] - width + 1)).astype(int)
        for row, top, left in zip(rows, tops, lefts, strict=True):
            crop = photograph[top : top + height, left : left + width]
            made[row] = np.abs(crop.astype(np.int16) - images[row, :, :, None])
    return made


def _covering(path: Path, height: int, width: int) -> np.ndarray:
    try:
        photograph = decode(path)
    except Exception as error:  # a broken file makes PIL raise almost anything
        raise ArgumentError(f"photographs: {path} cannot be read ({error}); remove it.") from error
    h, w = photograph.shape[:2]
    if h >= height and w >= width:
        return photograph
    factor = max(height / h, width / w)
    return decode(path, (max(height, round(h * factor)), max(width, round(w * factor))))
