"""`jumbot.adapt`: two data sets in, a classifier for the second out."""

from __future__ import annotations

import datetime
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import jumbot
from jumbot.adaptation.config import RunConfig, check_changes, make_config
from jumbot.adaptation.judgement.monitor import Watch
from jumbot.adaptation.model import NO_CROPS, Model, crop_transform, load
from jumbot.adaptation.networks.backbones import make_backbone
from jumbot.adaptation.networks.build import BUILT_IN, make_network
from jumbot.adaptation.networks.extractor import Extractor
from jumbot.adaptation.runs.finish import Before, finish
from jumbot.adaptation.runs.folder import FORMAT, RunFolder
from jumbot.adaptation.training.loop import Trainer
from jumbot.data import prepare
from jumbot.data.domain import Domain
from jumbot.data.inputs import kind_of
from jumbot.data.labels import match_classes
from jumbot.data.reading import make_reading
from jumbot.data.sources import read_domains
from jumbot.errors import ArgumentError
from jumbot.methods import make_method


def adapt(
    source: Any,
    target: Any,
    *,
    method: str = "jumbot",
    backbone: str | nn.Module | None = None,
    recipe: str | None = None,
    labelled: Any = None,
    label: str | None = None,
    id: str | None = None,
    drop: str | Sequence[str] = (),
    domain: str | None = None,
    kind: str | None = None,
    corrupt: str = "refuse",
    root: str | Path | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    show: bool = False,
    command: str | None = None,
    **options: Any,
) -> Model:
    """Train a classifier on labelled `source` data and adapt it to `target`, whose labels training never sees.

    `source` and `target` are folders of images, tables (`.csv`, `.parquet`, `.xlsx`, `.npz`), frames, arrays, pairs
    (X, y), or torch Datasets.  Labels of the target, where it has any, and those of `labelled`, another part of the
    target, are for evaluation alone.

    `recipe` names settings that fit a kind of data (by default it follows the data), and `options` change them: those
    of the method (`tau`, `epsilon`, `eta1`, ...), of `Training` (`steps`, `learning_rate`, `select`, `seed`, ...), of
    the network (`features`, `freeze`, ...) and of the inputs (`size`, `standardise`, ...).  `backbone` is a name or a
    module of your own that maps a batch to `(b, d)`.

    Columns of tables are matched by name.  `label` names the column of labels, which the target may lack, `id` that of
    the names of the rows, and `drop` columns to leave out; `columns="shared"` takes those that both tables have.  All
    of it is part of the model, which reads later tables in the same way.  `domain` takes one domain of a source that
    holds several.  `kind` says what arrays hold that are neither features nor images: "signal", which is
    `(n, channels, length)`, or "raw", tensors that pass as they are to a `backbone` of your own.  `corrupt` says if
    broken image files are refused or skipped ("skip"), `root` is where the digits are.

    `out` is the folder of the run: configuration, metrics, checkpoints, model, predictions, report.  `resume` goes on
    with a run that was stopped there.  `show` draws a progress bar.

    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 100)
    >>> X = rng.normal(size=(100, 3)) + 4 * y[:, None]
    >>> model = adapt((X, y), X + 0.5, steps=40, seed=0)
    >>> float((model.predict(X + 0.5) == y).mean()) > 0.9
    True
    """
    if target is None:
        raise ArgumentError("target: no target data; give the unlabelled data that the classifier is meant for.")
    module = backbone if isinstance(backbone, nn.Module) else None
    if module is not None:  # a recipe's own backbone gives way to the user's
        options = {"backbone": None, "weights": None, "freeze": False, **options}
    elif backbone is not None:
        options["backbone"] = backbone
    check_changes(method, recipe, options)
    reading = make_reading(
        label=label, id=id, drop=drop, domain=domain, kind=kind, corrupt=corrupt, root=root
    )  # fmt: skip
    raw_source, raw_target, raw_labelled = read_domains(source, target, labelled, reading)
    config = make_config(raw_source, method, recipe, options)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.training.seed)
        domains = Domains(raw_source, raw_target, raw_labelled, config, module)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.training.seed)
        network, spec = make_network(
            config.network, domains.shape, len(domains.source.classes), domains.module, domains.kind,
            domains.input.dtype,
        )  # fmt: skip
        adapting = make_method(method, config.options, features=network.features, classes=network.classes)
    described = describe(config, domains, spec, command)
    temporary = Path(tempfile.mkdtemp(prefix="jumbot-")) if out is None else None
    run = RunFolder(temporary / "run" if temporary is not None else Path(str(out)))
    trainer = Trainer(
        domains.source,
        domains.target.unlabelled(),
        network,
        adapting,
        config.training,
        watch=domains.watch,
        run=run,
        show=show,
    )
    if trainer.accelerator.is_main_process:
        run.open(described, resume)
        if resume and (run.path / "model.json").exists():
            return load(run.path, module)
    trainer.accelerator.wait_for_everyone()
    trainer.before_adaptation = Before(run.before, network)
    trained = trainer.fit(resume=resume)
    model = Model(
        network.cpu().eval(), domains.source.classes, domains.input, spec, described["method"], run=run.path,
        extractor=domains.extractor, crops=domains.crops,
    )  # fmt: skip
    if trainer.accelerator.is_main_process:
        model = finish(model, trained, domains, config, run)
    if temporary is not None:
        weakref.finalize(model, shutil.rmtree, temporary, ignore_errors=True)
    return model


class Domains:
    """Source, target and evaluation data as one network takes them.

    With a pretrained backbone the images come in its format, and where it is frozen, as its features.  A share of the
    source is held out where the rule of selection asks for it.
    """

    def __init__(
        self, source: Domain, target: Domain, labelled: Domain | None, config: RunConfig, module: nn.Module | None
    ) -> None:
        inputs, training, network = config.inputs, config.training, config.network
        self.module, self.kind = module, "user"
        self.extractor: Extractor | None = None
        pixels: str = inputs.pixels
        size, channels = inputs.size, inputs.channels
        named = network.backbone not in (None, *BUILT_IN)
        if kind_of(source) in ("signal", "raw"):
            if module is None and kind_of(source) == "raw":
                raise ArgumentError("backbone: kind='raw' came in without one; give a module that takes such tensors.")
            if network.freeze or named:
                raise ArgumentError("backbone: pretrained and frozen ones are for images; give a module, or none.")
        if kind_of(source) == "image" and (named or network.freeze):
            if module is None and not named:
                raise ArgumentError("freeze: there is no pretrained backbone to freeze; name one with backbone.")
            backbone = make_backbone(
                module if module is not None else str(network.backbone),
                network.weights,
                freeze=network.freeze,
                size=size,
            )
            if network.freeze:
                self.extractor, self.module = Extractor(backbone, network.weights), None
            else:
                self.module, self.kind = backbone.module, backbone.name
            if module is None:
                size, channels, pixels = backbone.size, 3, backbone.pixels
        self.crops = (inputs.augment, inputs.views) if kind_of(source) == "image" else NO_CROPS
        transform = crop_transform(self.crops)
        if transform is not None:
            from jumbot.data.augment import RESIZED

            size = inputs.size or RESIZED
        self.source, self.target, self.input = prepare(
            source, target, size, channels, pixels=pixels, standardise=inputs.standardise, columns=inputs.columns,
            transform=transform,
        )  # fmt: skip
        evaluated = None
        if labelled is not None:
            raw = match_classes(labelled, self.source.classes)
            if raw.labels is None or not (raw.labels >= 0).any():
                raise ArgumentError(f"labelled: {raw.name} has no labels of the source's classes; leave it out.")
            evaluated = self.input.apply(raw, transform)
        if inputs.partial is not None:
            from jumbot.data.benchmarks import keep_classes, partial_classes

            kept = partial_classes(inputs.partial, self.source.classes)
            self.target = keep_classes(self.target, kept)
            evaluated = None if evaluated is None else keep_classes(evaluated, kept)
        if self.extractor is not None:
            self.extractor = self.extractor.scaled_on(self.source, inputs.standardise)
            self.source, self.target = self.extractor(self.source), self.extractor(self.target)
            evaluated = None if evaluated is None else self.extractor(evaluated)
        own = self.target if self.target.labels is not None and (self.target.labels >= 0).any() else None
        self.labelled = own if evaluated is None else evaluated
        validation = None
        if training.validation or training.select == "source_validation":
            self.source, validation = hold_out(self.source, training.validation or 0.1, training.seed)
        if training.select == "oracle" and self.labelled is None:
            raise ArgumentError("select: 'oracle' needs target labels, and none were given; choose another rule.")
        self.watch = Watch(self.target.labels, self.labelled, validation)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one sample as the network sees it: several views of an image are several inputs."""
        return self.source.shape[-3:] if self.input.kind == "image" else self.source.shape


def hold_out(domain: Domain, share: float, seed: int) -> tuple[Domain, Domain]:
    """(the rest, about `share` of each class); a class of one sample stays whole in the rest."""
    assert domain.labels is not None
    rng = np.random.default_rng((seed, 6))
    out = np.zeros(len(domain), bool)
    for c in np.unique(domain.labels):
        members = rng.permutation(np.flatnonzero(domain.labels == c))
        out[members[: min(round(share * len(members)), len(members) - 1)]] = True
    if not out.any():
        raise ArgumentError(f"validation: a share of {share:g} of {len(domain)} source samples is none; hold out more.")
    return domain.subset(~out), domain.subset(out)


def describe(config: RunConfig, domains: Domains, spec: Mapping[str, Any], command: str | None) -> dict[str, Any]:
    """What `config.json` holds."""
    return {
        "format": FORMAT,
        "jumbot": jumbot.__version__,
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": command,
        "source": {"name": domains.source.name, "n": len(domains.source)},
        "target": {"name": domains.target.name, "n": len(domains.target)},
        "classes": list(domains.source.classes),
        **config.to_json(),
        "network": dict(spec),
        "input": asdict(domains.input),
        "select": config.training.select,
        "seed": config.training.seed,
    }
