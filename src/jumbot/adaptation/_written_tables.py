"""Tables that are written: predictions, and the features of images as rows of numbers."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Any, Literal, TextIO

import numpy as np
from torch import Tensor

from jumbot._base.files import replacing
from jumbot._settings.places import check_table_place
from jumbot._settings.reading import Corrupt
from jumbot.adaptation._evaluation.accuracy import Calibration
from jumbot.adaptation._evaluation.diagnosis import UNEXPLAINED
from jumbot.adaptation._evaluation.sets import PredictionSets, members
from jumbot.adaptation._evaluation.task import Regression, Task
from jumbot.adaptation._networks.backbones import make_backbone
from jumbot.adaptation._networks.features import Extractor
from jumbot.data import as_domain
from jumbot.data._augment import RESIZED, crop_transform
from jumbot.data._domain import Domain
from jumbot.data._folders import domains_among, images_below
from jumbot.data._frames import safe
from jumbot.data._inputs import InputFormat, kind_of
from jumbot.errors import ArgumentError, need

_LINES = 10_000  # of a table of predictions that are made at once


def write_table(
    file: str | Path | TextIO,
    domain: Domain,
    logits: Tensor,
    task: Task,
    calibration: Calibration,
    more: Mapping[str, Any],
) -> None:
    """One line per sample, with `more` columns of numbers; no spreadsheet takes an id or a label for a formula."""
    names = ["label", "confidence"]
    if isinstance(task, Regression):
        names = [f"prediction_{name}" for name in task.output_names] or ["prediction"]
    ids: Sequence[Any] = range(len(domain)) if domain.ids is None else domain.ids
    with ExitStack() as opened:
        if isinstance(file, str | Path):
            path = opened.enter_context(replacing(file))
            file = opened.enter_context(path.open("w", newline="", encoding="utf-8", errors="backslashreplace"))
        # the csv module quotes a carriage return only where lines end in one
        odd = any("\r" in str(cell) for cell in chain(() if domain.ids is None else ids, task.classes))
        writer = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL if odd else csv.QUOTE_MINIMAL)
        writer.writerow(["id", *names, *more])
        for start in range(0, len(domain), _LINES):
            part = slice(start, start + _LINES)
            columns = [*_words(task, calibration, logits[part])]
            columns += [[v if isinstance(v, str) else f"{v:.6g}" for v in given[part]] for given in more.values()]
            row_names = ids[part] if domain.ids is None else [safe(str(name)) for name in ids[part]]
            writer.writerows(zip(row_names, *columns, strict=True))


def set_columns(task: Task, found: PredictionSets) -> dict[str, Any]:
    """Columns of predictions with sets; intervals in the digits of the predictions."""
    if isinstance(task, Regression):
        ends = found.sets.reshape(len(found.sets), -1, 2)
        names = task.output_names or ("",)
        return {
            "_".join(filter(None, (end, name))): [repr(float(value)) for value in ends[:, i, side]]
            for i, name in enumerate(names)
            for side, end in enumerate(("low", "high"))
        }
    order = {name: i for i, name in enumerate(members(task.names()))}
    texts = [safe("|".join(task.classes[i] for i in sorted(order[c] for c in one))) for one in found.sets]
    return {"set": texts, "set_size": found.sizes}


def _words(task: Task, calibration: Calibration, logits: Tensor) -> Iterator[list[str]]:
    """The columns of predictions in a table."""
    if isinstance(task, Regression):
        for values in task.decode(logits).reshape(len(logits), -1).T:
            yield [repr(float(value)) for value in values]
    else:
        best = calibration.scores(logits).softmax(-1).max(-1)
        yield [safe(task.classes[i]) for i in best.indices.tolist()]
        yield [f"{value:.4f}" for value in best.values.tolist()]


def explanations(received: np.ndarray) -> dict[str, np.ndarray]:
    """Columns of `predictions.csv` on how well the source explains a sample."""
    return {"received_mass": received, "unexplained": (received < UNEXPLAINED).astype(int)}


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
