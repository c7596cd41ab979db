"""Tables of features: from folders of images to rows of numbers with labels, domains and names."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np

from jumbot._base.files import replacing
from jumbot._settings.places import check_table_place
from jumbot._settings.reading import Corrupt
from jumbot.adaptation._networks.backbones import make_backbone
from jumbot.adaptation._networks.features import Extractor
from jumbot.data import as_domain
from jumbot.data._augment import RESIZED, crop_transform
from jumbot.data._domain import Domain
from jumbot.data._folders import domains_among, images_below
from jumbot.data._frames import safe
from jumbot.data._inputs import InputFormat, kind_of
from jumbot.errors import ArgumentError, need


def write_features(
    source: str | Path,
    out: str | Path,
    *,
    backbone: str = "efficientnet-lite0",
    weights: str | None = "imagenet",
    views: Literal["whole", "centre-crop"] = "whole",
    device: str = "cpu",
    corrupt: Corrupt = "refuse",
) -> tuple[int, int]:
    """Write the features of all images of `source` as a table for `jumbot.adapt` and `compare`; return its shape.

    `source` is a folder of images, a folder of domains (`camera/class/name.jpg`), or a list of images.  "whole" resizes
    an image to the input of the backbone, "centre-crop" to 256 x 256 pixels, of which it uses the middle 224 x 224.
    Features are cached, so an interrupted call can be continued.
    """
    out = Path(out)
    check_table_place(out)
    domains = domains_of(Path(source), corrupt)
    network = make_backbone(backbone, weights, freeze=True)
    transform = crop_transform(("none", views))
    side = network.size if transform is None else RESIZED
    images = InputFormat("image", size=(side, side), channels=3, pixels=network.pixels)  # type: ignore[arg-type]
    extractor = Extractor(network, weights, device=device)
    parts = [extractor(images.apply(domain, transform)) for domain in domains]
    table: dict[str, Any] = {
        "features": np.concatenate([part.samples.batch(np.arange(len(part))).numpy() for part in parts]),
        "domain": np.concatenate([np.full(len(domain), domain.name) for domain in domains]),
        "id": np.concatenate([np.array(domain.ids) for domain in domains]),
    }
    if all(domain.labels is not None for domain in domains):
        table["label"] = np.concatenate([np.array(domain.classes)[domain.labels] for domain in domains])
    with replacing(out) as part:
        _write(part, out.suffix, table)
    rows, width = table["features"].shape
    return rows, width


def domains_of(source: Path, corrupt: Corrupt) -> list[Domain]:
    """The domains of a folder of domains, or the single domain of the source; only images are allowed."""
    names = domains_among(images_below(source)) if source.is_dir() else []
    found = [as_domain(source, domain=name, name=name, corrupt=corrupt) for name in names or (None,)]
    for domain in found:
        if kind_of(domain) != "image":
            raise ArgumentError(f"{source}: contains no images; features are extracted from those.")
        if domain.labels is not None and (domain.labels < 0).any():
            row = int(np.flatnonzero(domain.labels < 0)[0])
            name = row if domain.ids is None else domain.ids[row]
            raise ArgumentError(f"{domain.name}: {name} has no class, others have; put all into folders of classes.")
    return found


def _write(path: Path, suffix: str, table: dict[str, Any]) -> None:
    if suffix == ".npz":
        with path.open("wb") as opened:
            np.savez_compressed(opened, **table)
        return
    pandas = need("pandas", f"a table that ends in {suffix}", "adapt")
    width = len(str(table["features"].shape[1] - 1))
    columns = {f"f{place:0{width}}": column for place, column in enumerate(table["features"].T)}
    frame = pandas.DataFrame({**{name: table[name] for name in table if name != "features"}, **columns})
    if suffix == ".csv":
        texts = [name for name in table if name != "features"]
        frame[texts] = frame[texts].map(lambda cell: safe(cell) if isinstance(cell, str) else cell)
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path, index=False)
