"""What accompanies a model in its run folder: a source-only baseline, and samples to look at."""

from __future__ import annotations

import base64
import io
import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from jumbot.adaptation._config import RunConfig
from jumbot.adaptation._evaluation.accuracy import Calibration, unknown
from jumbot.adaptation._evaluation.measures import evaluate
from jumbot.adaptation._evaluation.monitor import logits_of
from jumbot.adaptation._judging import Judged, estimate_of
from jumbot.adaptation._runs.results_json import Baseline, Reason, Sample, Samples
from jumbot.adaptation._training.witnesses import train_network
from jumbot.data._domain import Domain
from jumbot.data._inputs import InputFormat, unscaled
from jumbot.errors import need
from jumbot.methods import SOURCE_ONLY, options_class
from jumbot.methods.network import Network

if TYPE_CHECKING:
    from jumbot.adaptation._domains import Domains

BASELINE, SAMPLES = "baseline.json", "samples.json"
SHOWN = 12  # samples of each kind
_SIDE = 96  # of a thumbnail, in pixels
_BEFORE = "the same network after its source-only start"
_TRAINED = "source-only, trained with the same settings and seed"


def source_only(
    earlier: Network | None, domains: Domains, config: RunConfig, until: float = math.inf
) -> tuple[Network, str] | None:
    """A network trained on the source alone, and its description.

    For rows of numbers and signals one is trained for as many steps as the run, which takes seconds; otherwise it is
    the run's own network before adaptation, if it was trained on the source first (`earlier`), or there is none.
    """
    if config.method == SOURCE_ONLY:
        return None
    if domains.module is not None or not (len(domains.shape) == 1 or domains.input.kind == "signal"):
        return None if earlier is None else (earlier, _BEFORE)
    options = options_class(SOURCE_ONLY)
    training = replace(config.training, sampler=options.sampler)
    alone = replace(config, method=SOURCE_ONLY, options=options(), training=training)
    # without the labelled samples of the target, which do not belong to the source
    return train_network(replace(domains.training_data, labelled=None), alone, until), _TRAINED


def compared(
    network: Network, what: str, logits: Tensor, domains: Domains, labels: np.ndarray, judged: Judged
) -> Baseline:
    """`baseline.json`: accuracy with labels and without, and the share of predictions that adaptation changed.

    `logits` are those of `network` for the target.
    """
    probabilities = probabilities_alone(logits, judged)
    old, classes = probabilities.argmax(-1), domains.source.classes
    estimated = unknown(judged.why_not or "there is no held-out part of the source")
    if judged.witnesses is not None and SOURCE_ONLY in judged.witnesses.by_method:
        estimated = estimate_of(judged.witnesses, SOURCE_ONLY, logits, old)
    found = Baseline(what=what, changed=float((old.numpy() != labels).mean()), estimated_accuracy=estimated)
    if (evaluated := domains.evaluated) is not None and evaluated.labels is not None:
        same = evaluated is domains.target
        shares = probabilities if same else probabilities_alone(logits_of(network, evaluated), judged)
        figures = evaluate(shares, evaluated.labels, classes).to_json()
        found = replace(found, **{name: figures[name] for name in ("accuracy", "mean_class_accuracy", "n")})
    return found


def probabilities_alone(logits: Tensor, judged: Judged) -> Tensor:
    """Probabilities of a classifier of the source alone, for the source's class proportions, calibrated like those of
    the model.
    """
    witness = None if judged.witnesses is None else judged.witnesses.by_method.get(SOURCE_ONLY)
    natural = Calibration() if witness is None else Calibration(witness.temperature, tuple(witness.offset.tolist()))
    return natural.scores(logits).softmax(-1)


def notable(
    domain: Domain,
    pictures: Domain | None,
    format: InputFormat,
    probabilities: Tensor,
    before: Tensor | None,
    received: np.ndarray,
    classes: tuple[str, ...],
) -> Samples:
    """`samples.json`: the least explained samples, and those whose class adaptation changed with the most probability.

    The change is the increase of the probability of the new class.
    """
    labels = probabilities.argmax(-1).numpy()
    rows: list[tuple[Reason, int]] = [("least explained", int(i)) for i in np.argsort(received, kind="stable")[:SHOWN]]
    old = None if before is None else before.argmax(-1).numpy()
    if before is not None and old is not None:
        places = np.arange(len(labels))
        rise = (probabilities.numpy() - before.numpy())[places, labels]
        changed = np.flatnonzero(old != labels)
        rows += [("most changed", int(i)) for i in changed[np.argsort(-rise[changed], kind="stable")][:SHOWN]]
    thumbnails = {} if pictures is None else _thumbnails(pictures, format, sorted({i for _, i in rows}))
    return tuple(
        Sample(
            why=why,
            row=i,
            id=str(domain.ids[i]) if domain.ids is not None else str(i),
            label=classes[labels[i]],
            confidence=round(float(probabilities[i].max()), 4),
            received_mass=round(float(received[i]), 4),
            before=None if old is None else classes[old[i]],
            picture=thumbnails.get(i),
        )
        for why, i in rows
    )


def _thumbnails(pictures: Domain, format: InputFormat, rows: list[int]) -> dict[int, str]:
    """Small pictures as `data:` addresses, as the network sees them."""
    image = need("PIL.Image", "the report of a run", "adapt")
    found = {}
    for i in rows:
        x = pictures.samples.batch(np.array([i]))[0]
        x = x[4] if x.ndim == 4 else x  # the middle one of ten views
        x = unscaled(x, format).double()
        if format.pixels == "as-is":
            x = (x - x.min()) / (x.max() - x.min()).clamp_min(1e-12)
        x = x[:3] if len(x) >= 3 else x[:1]
        array = (x.clamp(0, 1) * 255).round().to(torch.uint8).permute(1, 2, 0).numpy()
        picture = image.fromarray(array[:, :, 0] if array.shape[2] == 1 else array)
        small = max(picture.size) <= _SIDE
        picture.thumbnail((_SIDE, _SIDE))
        written = io.BytesIO()
        picture.save(written, "PNG" if small else "JPEG")
        kind = "png" if small else "jpeg"
        found[i] = f"data:image/{kind};base64,{base64.b64encode(written.getvalue()).decode()}"
    return found
