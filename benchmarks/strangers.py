"""How many strange pictures are named as such among digits, by the features of pictures that no training changes.

    python -m benchmarks.strangers --root DIGITS

Targets are 1,000 digits and 15 strangers; 60 strangers of the same make are then judged beside the 1,000.  They
are photographs (`office_caltech10` under the root), printed letters, noise, and a digit that the source lacks.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from jumbot.adaptation._evaluation.diagnosis import UNEXPLAINED
from jumbot.adaptation._evaluation.nearness import learn_nearness, picture_features
from jumbot.data import load, load_folder
from jumbot.data._images import read_images

PAIRS = (("usps", "mnist"), ("mnist", "usps"), ("mnist", "mnistm"), ("svhn", "mnist"), ("mnistm", "svhn"))
SIDE, SAMPLES, TARGET, STRANGE, AMONG = 28, 2500, 1000, 60, 15


def digits(name: str, root: str) -> tuple[Tensor, np.ndarray]:
    """Some of a set, in [0, 1]."""
    domain = load(name, root=root)
    rows = np.sort(np.random.default_rng(0).permutation(len(domain))[:SAMPLES])
    pictures = domain.samples.batch(rows).float()
    assert domain.labels is not None
    pictures = pictures / 255 if pictures.max() > 1.5 else pictures
    return F.interpolate(pictures, (SIDE, SIDE), mode="bilinear"), domain.labels[rows]


def letters() -> Tensor:
    """Printed ones, light on dark."""
    from matplotlib import font_manager
    from PIL import Image, ImageDraw, ImageFont

    rng, drawn = np.random.default_rng(1), []
    face = font_manager.findfont("DejaVu Sans")
    for _ in range(STRANGE):
        picture = Image.new("L", (SIDE, SIDE))
        place = int(rng.integers(4, 8)), int(rng.integers(0, 4))
        ImageDraw.Draw(picture).text(place, rng.choice([*"ABEFGHKMNPRWXaekmw"]), 255, ImageFont.truetype(face, 22))
        drawn.append(np.array(picture))
    return torch.tensor(np.array(drawn)).float()[:, None] / 255


def photographs(root: str) -> Tensor:
    """Of office things, made as small as digits."""
    folder = next(path for path in sorted(Path(root).glob("office_caltech10/**/*")) if any(path.glob("*/*.jpg")))
    domain = load_folder(folder, domain="none")
    rows = np.sort(np.random.default_rng(2).permutation(len(domain))[:STRANGE])
    return read_images(domain.samples, rows, (SIDE, SIDE), 3, None)


def strangers(xs: Tensor, ys: np.ndarray, xt: Tensor, yt: np.ndarray, root: str) -> Iterator[tuple[str, list[Tensor]]]:
    """(what, [source, known target, strangers])."""
    noise = torch.rand(STRANGE, 1, SIDE, SIDE, generator=torch.Generator().manual_seed(0))
    for what, some in (("letters", letters()), ("photographs", photographs(root)), ("noise", noise)):
        yield what, [xs, xt[:TARGET], some]
    for digit in (4, 9):
        yield "a digit", [xs[ys != digit], xt[yt != digit][:TARGET], xt[yt == digit][:STRANGE]]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", required=True)
    root = parser.parse_args().root
    sets = {name: digits(name, root) for name in {name for pair in PAIRS for name in pair}}
    found: dict[str, list[tuple[float, float]]] = {}
    for here, there in PAIRS:
        for what, parts in strangers(*sets[here], *sets[there], root):
            source, known, strange = (picture_features(part).numpy() for part in parts)
            near = learn_nearness(source, np.concatenate([known, strange[:AMONG]]))
            assert near is not None
            shares = [float((near.received(rows) < UNEXPLAINED).mean()) for rows in (strange, known)]
            found.setdefault(what, []).append((shares[0], shares[1]))
            print(f"{here} -> {there}, {what}: {100 * shares[0]:.0f} % named, {100 * shares[1]:.1f} % of the others")
    for what, pairs in found.items():
        named, others = (100 * np.mean([pair[i] for pair in pairs]) for i in (0, 1))
        print(f"{what}: {named:.0f} % named, {others:.1f} % of the others")


if __name__ == "__main__":
    main()
