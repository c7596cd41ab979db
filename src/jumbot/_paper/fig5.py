"""Figure 5: t-SNE of the embeddings of test samples of M->MM, DeepJDOT and JUMBOT, coloured by class.

10,000 samples, as the caption says; it does not say how they are divided between the two domains: here half are from
the test split of MNIST and half from that of M-MNIST.  A map shows neighbourhoods, not distances, so the record
measures what the paper reads from it: how many target samples lie among samples of another class, in the embedding
itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jumbot._base.files import replacing
from jumbot._paper.trained import DIGITS, Suite, only
from jumbot.adaptation._evaluation.monitor import outputs
from jumbot.adaptation._model import load
from jumbot.adaptation._queue import Run
from jumbot.data._domain import Domain
from jumbot.errors import need
from jumbot.report._curves import tsne
from jumbot.report._style import class_colours, legend_below, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NEIGHBOURS = 10
ITERATIONS = 1000


def run(
    suite: Suite,
    *,
    tasks: Sequence[str] = ("M-MM",),
    methods: Sequence[str] = ("deepjdot", "jumbot"),
    samples: int = 10_000,
) -> dict[str, Any]:
    """Train what is not finished, in the folders of the item digits, then map, measure, draw and save."""
    count = min(samples, 400) if suite.quick else samples
    runs = suite.runs(only(tasks), methods)
    record = suite.record("fig5", "figure 5", runs, tasks=tasks, methods=methods, samples=samples)
    found = {each.variant.label: _mapped(suite, each, count) for each in runs}
    mixed = {name: float(each["mixed"]) for name, each in found.items()}
    record.data = {
        "samples": count,
        "of the target": {name: int(each["target"].sum()) for name, each in found.items()},
        "t-SNE": {"perplexity": 30, "initialisation": "pca", "iterations": ITERATIONS, "seed": suite.seed},
        "share of target samples among another class": mixed,
        "neighbours": NEIGHBOURS,
    }
    if {"deepjdot", "jumbot"} <= set(mixed):
        record.claim(
            "there are some overlaps between clusters for DeepJDOT unlike JUMBOT (section 5.2)",
            mixed["jumbot"] < mixed["deepjdot"],
            share_of_target_samples_among_another_class=mixed,
        )
    record.picture(suite.folder, _draw(found, mixed))
    return record.save(suite.folder)


def among_others(z: np.ndarray, labels: np.ndarray, asked: np.ndarray, neighbours: int = NEIGHBOURS) -> float:
    """The share of the asked samples most of whose nearest neighbours in `z`, of either domain, are of another class.

    >>> z, labels = np.array([[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]]), np.array([0, 0, 1, 1, 1, 1])
    >>> among_others(z, labels, np.ones(6, bool), neighbours=2)
    0.16...
    """
    nearest = need("sklearn.neighbors", "figure 5", "adapt", "scikit-learn").NearestNeighbors(n_neighbors=neighbours)
    rows = nearest.fit(z).kneighbors(return_distance=False)[asked]  # of fitted points: a point is not its own neighbour
    other = (labels[rows] != labels[asked][:, None]).mean(1)
    return float((other > 0.5).mean())


def _mapped(suite: Suite, run: Run, count: int) -> dict[str, np.ndarray]:
    """Places of test samples on the map, their classes, which are of the target, and how mixed these are.

    They are kept in the folder of the run, so that a map is made once.
    """
    file = run.folder / f"map-{count}.npz"
    if not file.exists():
        source, target, *_ = DIGITS[run.pair.name]
        sizes = {source: count - count // 2, target: count // 2}
        domains = [_some(suite.domain(name, "test"), most, run.seed) for name, most in sizes.items()]
        model = load(run.folder)
        z = np.concatenate([outputs(model.network, model.input.apply(domain))[0].numpy() for domain in domains])
        labels = np.concatenate([np.asarray(domain.labels) for domain in domains])
        of_target = np.repeat([False, True], [len(domain) for domain in domains])
        with replacing(file) as part, part.open("wb") as opened:
            np.savez_compressed(
                opened,
                places=tsne(z, run.seed, ITERATIONS).astype(np.float32),
                labels=labels.astype(np.int8),
                target=of_target,
                mixed=among_others(z, labels, of_target),
            )
    with np.load(file) as stored:
        return {name: stored[name] for name in stored.files}


def _some(domain: Domain, most: int, seed: int) -> Domain:
    return domain.subset(np.sort(np.random.default_rng((seed, 5)).permutation(len(domain))[:most]))


def _draw(found: dict[str, dict[str, np.ndarray]], mixed: dict[str, float]) -> Figure:
    figure = new_figure(5.4 * len(found), 5.6)
    colours = np.array(class_colours(10))
    for panel, (name, each) in zip(figure.subplots(1, len(found), squeeze=False)[0], found.items(), strict=True):
        for is_target, marker in ((False, "o"), (True, "x")):
            chosen = each["target"] == is_target
            x, y = each["places"][chosen].T
            panel.scatter(
                x,
                y,
                c=colours[each["labels"][chosen]].tolist(),
                marker=marker,
                s=4,
                linewidths=0.5 if is_target else 0,
                alpha=0.7,
                rasterized=True,
            )
        panel.set_title(f"{name}: {100 * mixed[name]:.1f} % of target samples among another class", fontsize=11)
        panel.set(xticks=[], yticks=[])
    legend_below(figure, {str(digit): ("o", colour) for digit, colour in enumerate(colours)})
    figure.suptitle("test embeddings, circles MNIST, crosses M-MNIST", fontsize=11)
    return figure
