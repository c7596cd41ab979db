"""Source, target and evaluation data as inputs of one network."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from torch import nn

from jumbot._settings.names import BUILT_IN
from jumbot.adaptation._config import RunConfig
from jumbot.adaptation._evaluation.modularity import rows_of
from jumbot.adaptation._evaluation.monitor import Watch
from jumbot.adaptation._evaluation.task import Task, task_of
from jumbot.adaptation._networks.backbones import make_backbone
from jumbot.adaptation._networks.features import Extractor
from jumbot.adaptation._networks.stems import learn_directions, project
from jumbot.adaptation._training.accelerator import device_of
from jumbot.adaptation._training.parts import NetworkInput, TrainingData
from jumbot.data import prepare
from jumbot.data._augment import NO_CROPS, RESIZED, crop_transform
from jumbot.data._benchmarks import keep_classes, partial_classes, thin_classes
from jumbot.data._domain import Domain
from jumbot.data._inputs import kind_of
from jumbot.data._labels import match_classes
from jumbot.data._readers import in_files
from jumbot.data._screening import screen
from jumbot.data._sources import ReadData
from jumbot.errors import ArgumentError


class Domains:
    """Source, target and evaluation data as input of one network.

    With a pretrained backbone, images are in its format or, if it is frozen, replaced by its features.  A share of the
    source is held out if the selection rule requires it.
    """

    def __init__(
        self,
        read: ReadData,
        config: RunConfig,
        module: nn.Module | None = None,
    ) -> None:
        self.remarks: tuple[str, ...] = ()
        """Problems in the data, if any were noted."""
        workers = config.training.workers
        if workers and not any(in_files(domain.samples) for domain in read if domain is not None):
            raise ArgumentError("workers has no effect without image files.")
        self.module, self.kind = module, "user"
        self.extractor: Extractor | None = None
        self.crops = (config.inputs.augment, config.inputs.views) if kind_of(read.source) == "image" else NO_CROPS
        images = self._take_backbone(read.source, config)
        self._prepare(read, config, *images)
        self._study(config)
        self.pictures = self.target if self.input.kind == "image" else None
        """The target as images, even if the network sees their features."""
        self._to_rows(config)
        self._set_apart(config)

    def _take_backbone(self, source: Domain, config: RunConfig) -> tuple[int | None, int | None, str]:
        """Make the pretrained backbone; return size, channels and pixels of images, those of the backbone if it has
        any.
        """
        inputs, training, network, module = config.inputs, config.training, config.network, self.module
        named = network.backbone not in (None, *BUILT_IN)
        if kind_of(source) in ("signal", "raw"):
            if module is None and kind_of(source) == "raw":
                raise ArgumentError("kind='raw' needs a backbone; pass a module that takes such tensors.")
            if network.freeze or named:
                raise ArgumentError(
                    "backbone: pretrained and frozen backbones are for images; pass a module, or leave it out."
                )
        if kind_of(source) != "image" or not (named or network.freeze):
            return inputs.size, inputs.channels, inputs.pixels
        if module is None and not named:
            raise ArgumentError("freeze: there is no pretrained backbone to freeze; pass one as backbone.")
        backbone = make_backbone(
            module if module is not None else str(network.backbone),
            network.weights,
            freeze=network.freeze,
            size=inputs.size,
        )
        if network.freeze:
            self.module = None
            self.extractor = Extractor(backbone, network.weights, device=device_of(training), workers=training.workers)
        else:
            self.module, self.kind = backbone.module, backbone.name
        if module is None:
            return backbone.size, 3, backbone.pixels
        return inputs.size, inputs.channels, inputs.pixels

    def _prepare(
        self,
        read: ReadData,
        config: RunConfig,
        size: int | None,
        channels: int | None,
        pixels: str,
    ) -> None:
        """Source, target, samples to evaluate on and labelled ones as network input."""
        source, target, evaluate_on, labelled = read
        inputs = config.inputs
        transform = crop_transform(self.crops)
        if transform is not None:
            size = inputs.size or RESIZED
        self.source, self.target, self.input = prepare(
            source,
            target,
            size,
            channels,
            pixels=pixels,
            standardise=inputs.standardise,
            columns=inputs.columns,
            dates=inputs.dates,
            text=inputs.text,
            transform=transform,
        )
        if self.input.std is not None and not any(self.input.std):
            raise ArgumentError(
                f"{source.name}: all features are constant in float32; a network cannot learn from them."
            )
        self.evaluated: Domain | None = None
        if evaluate_on is not None:
            raw = match_classes(evaluate_on, self.source.classes)
            if not raw.known.any():
                raise ArgumentError(f"evaluate_on: {raw.name} has no labels of the source's classes; leave it out.")
            self.evaluated = self.input.apply(raw, transform)
        self.labelled = None if labelled is None else self.input.apply(labelled, transform)
        if self.input.kind == "features":
            for more in (evaluate_on, labelled):
                if more is not None:
                    screen(source, more)

    def _study(self, config: RunConfig) -> None:
        """Apply `partial` and `thin` to the target and to the evaluation data."""
        partial, thin = config.inputs.partial, config.inputs.thin
        if partial is not None:
            kept = partial_classes(partial, self.source.classes)
            self.target = keep_classes(self.target, kept)
            self.evaluated = None if self.evaluated is None else keep_classes(self.evaluated, kept)
        if thin is not None:
            self.target = thin_classes(self.target, thin)
            self.evaluated = None if self.evaluated is None else thin_classes(self.evaluated, thin)

    def _to_rows(self, config: RunConfig) -> None:
        """Extract the features of a frozen backbone, and reduce wide rows to `rank` directions."""
        if self.extractor is not None:
            self.extractor = self.extractor.scaled_on(self.source, config.inputs.standardise)
            self._through(self.extractor)
        if config.network.rank and len(self.source.shape) == 1:
            stem = learn_directions(self.source, config.network.rank, self.labelled)
            self._through(lambda domain: project(stem, domain))

    def _through(self, change: Callable[[Domain], Domain]) -> None:
        self.source, self.target = change(self.source), change(self.target)
        self.evaluated = None if self.evaluated is None else change(self.evaluated)
        self.labelled = None if self.labelled is None else change(self.labelled)

    def _set_apart(self, config: RunConfig) -> None:
        """The evaluation data, and the part of the source that training does not see."""
        training = config.training
        if self.evaluated is None and self.target.known.any():
            self.evaluated = self.target
        if self.labelled is not None and self.evaluated is not None:
            self.evaluated = without(self.evaluated, self.labelled)
        validation = None
        if training.validation or training.select == "source_validation":
            self.source, validation = hold_out(self.source, training.validation or 0.1, training.seed)
        if training.select == "oracle" and self.evaluated is None:
            raise ArgumentError("select: 'oracle' needs target labels, and none were given; choose another rule.")
        self.task = task_of(self.source, training.label_loss or "squared")
        check_widths(self.task, self.target, self.evaluated, self.labelled)
        self.watch = Watch(self.target.labels, self.evaluated, validation)

    @property
    def training_data(self) -> TrainingData:
        return TrainingData(self.source, self.target, self.task, self.labelled)

    @property
    def network_input(self) -> NetworkInput:
        return NetworkInput(self.shape, self.input.dtype, self.module, self.kind)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one sample as the network sees it: several views of an image are several inputs."""
        return self.source.shape[-3:] if self.input.kind == "image" else self.source.shape


def check_widths(task: Task, *domains: Domain | None) -> None:
    """Refuse true numbers whose width differs from the source's."""
    for domain in domains:
        if domain is not None and domain.values is not None and domain.values.shape[1] != task.outputs:
            raise ArgumentError(
                f"{domain.name}: {domain.values.shape[1]} numbers per sample, but the source has {task.outputs}."
            )


def without(evaluated: Domain, labelled: Domain) -> Domain:
    """`evaluated` without samples that are used in training, recognised by equal network input."""
    seen = {row.tobytes() for row in rows_of(labelled).astype(np.float32)}
    kept = np.array([row.tobytes() not in seen for row in rows_of(evaluated).astype(np.float32)])
    if kept.all():
        return evaluated
    if not kept.any():
        raise ArgumentError(f"labelled_target: contains every sample of {evaluated.name}; none is left to evaluate on.")
    return evaluated.subset(kept)


def hold_out(domain: Domain, share: float, seed: int) -> tuple[Domain, Domain]:
    """(the rest, about `share` of each class); a class with one sample stays in the rest."""
    strata = np.zeros(len(domain), np.int64) if domain.labels is None else domain.labels
    rng = np.random.default_rng((seed, 6))
    out = np.zeros(len(domain), bool)
    for c in np.unique(strata):
        members = rng.permutation(np.flatnonzero(strata == c))
        out[members[: min(round(share * len(members)), len(members) - 1)]] = True
    if not out.any():
        raise ArgumentError(
            f"validation: a share of {share:g} of {len(domain)} source samples is less than one; pass a larger share."
        )
    return domain.subset(~out), domain.subset(out)
