"""Networks by the kind of data: for digits, for rows of numbers, around a pretrained or user-made backbone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

import torch
from torch import Tensor, nn

from jumbot._base.options import Bounds, Count, Share, Whole, Width
from jumbot._base.schema import Record
from jumbot._settings.names import BUILT_IN, check_backbone
from jumbot._settings.training import NetworkOptions
from jumbot.adaptation._networks.backbones import make_backbone, output_width
from jumbot.adaptation._networks.stems import (
    Directions,
    Pieces,
    ProjectedSamples,
    Statistics,
    learn_directions,
    number_columns,
    signal_network,
    some_inputs,
)
from jumbot.data._domain import Domain
from jumbot.errors import ArgumentError
from jumbot.methods.network import Network, Sigmoid, xavier

Stem = Pieces | Directions
"""A first layer for rows that is fitted to the source before training."""


@dataclass(frozen=True)
class NetworkSpec(Record):
    """What a network is built from."""

    kind: str
    shape: tuple[Count, ...]
    classes: Annotated[int, Bounds(at_least=1, at_most=2**20)]
    features: Width
    hidden: tuple[Width, ...] = ()
    dropout: Share = 0.0
    bins: Annotated[int, Bounds(at_least=0, at_most=256)] = 0
    numbers: tuple[Whole, ...] = ()
    """Columns that are also divided into `bins`."""
    rank: Annotated[int, Bounds(at_least=0, at_most=2**14)] = 0
    statistics: bool = False
    """Whether a network for signals uses their statistics; those of version 0.2 and earlier do not."""
    width: Width | None = None
    """The output width of a pretrained or user-made backbone."""
    bottleneck: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_name("kind", self.kind)
        if not self.shape:
            raise ArgumentError("shape must be the shape of a sample, got an empty list.")
        ranks = {"table": 1, "signal": 2, "digits": 3}
        if len(self.shape) != ranks.get(self.kind, len(self.shape)):
            raise ArgumentError(f"shape: got {list(self.shape)}; a {self.kind} network takes {ranks[self.kind]}.")
        if self.numbers and (not self.bins or max(self.numbers) >= self.shape[0]):
            raise ArgumentError(f"numbers: must be columns below {self.shape[0]}, with bins > 0, got {self.numbers}.")
        if self.bottleneck and self.width is None:
            raise ArgumentError("width: is missing; a bottleneck needs that of its backbone.")


def check_name(field: str, name: str) -> None:
    """Refuse the name of a backbone that this version does not have; "user" is the user's own module."""
    if name != "user":
        try:
            check_backbone(name)
        except ArgumentError as error:
            raise ArgumentError(str(error).replace("backbone:", f"{field}:", 1)) from error


class Bottleneck(nn.Module):
    """A pretrained or user-made backbone, then a linear layer without activation, as in the image recipes."""

    def __init__(self, backbone: nn.Module, width: int, features: int) -> None:
        super().__init__()
        self.pretrained = backbone
        self.bottleneck = nn.Linear(width, features)

    def forward(self, x: Tensor) -> Tensor:
        z: Tensor = self.bottleneck(self.pretrained(x))
        return z


class _Digits(nn.Sequential):
    """Layers with images in the memory layout in which a CPU convolves bfloat16 1.4 times faster."""

    def forward(self, x: Tensor) -> Tensor:
        if x.device.type == "cpu" and torch.is_autocast_enabled("cpu"):
            _, channels, height, width = x.shape
            # a single channel has the same memory in both layouts; only the strides differ
            strides = (channels * height * width, 1, channels * width, channels)
            x = x.contiguous(memory_format=torch.channels_last).as_strided(x.shape, strides)
        z: Tensor = super().forward(x)
        return z


def digits_network(shape: tuple[int, ...], classes: int = 10, features: int = 128) -> Network:
    """The network of the paper's digits: six convolutions in three pairs, each pair pooled, a sigmoid embedding.

    Initial weights: convolutions N(0, .02), batch norms N(1, .02), linear layers N(0, .1), their biases zero.

    >>> sum(p.numel() for p in digits_network((3, 32, 32)).parameters())
    551466
    >>> sum(p.numel() for p in digits_network((1, 28, 28)).parameters())
    436202
    """
    channels, height, width = shape
    if min(height, width) < 8:
        raise ArgumentError(
            f"network: images of {height}x{width} are too small for three pooling layers; enlarge them to 8x8 or more."
        )
    layers: list[nn.Module] = []
    for wide in (32, 64, 128):
        for _ in range(2):
            layers += [nn.Conv2d(channels, wide, 3, padding=1), nn.BatchNorm2d(wide), nn.ReLU(inplace=True)]
            channels = wide
        layers.append(nn.MaxPool2d(2))
    flat = channels * (height // 8) * (width // 8)
    layers += [nn.Flatten(), nn.Linear(flat, features), Sigmoid()]
    network = Network(_Digits(*layers), features=features, classes=classes)
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.normal_(module.weight, 0.0, 0.02)
        elif isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.weight, 1.0, 0.02)
            nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, 0.0, 0.1)
            nn.init.zeros_(module.bias)
    return network


def table_network(
    width: int,
    classes: int,
    features: int = 256,
    hidden: tuple[int, ...] = (),
    dropout: float = 0.0,
    stem: Stem | None = None,
) -> Network:
    """For rows of numbers: ReLU layers of the `hidden` widths, a linear embedding, all Xavier-normal, biases zero.

    The `stem` comes before them, and `dropout` after each hidden layer.

    >>> table_network(2048, 10).backbone
    Sequential(
      (0): Linear(in_features=2048, out_features=256, bias=True)
    )
    """
    layers: list[nn.Module] = [] if stem is None else [stem]
    width = width if stem is None else stem.width
    for wide in hidden:
        layers += [nn.Linear(width, wide), nn.ReLU()] + ([nn.Dropout(dropout)] if dropout else [])
        width = wide
    layers.append(nn.Linear(width, features))
    network = Network(nn.Sequential(*layers), features=features, classes=classes)
    xavier(network)
    return network


def make_network(
    options: NetworkOptions,
    shape: tuple[int, ...],
    classes: int,
    module: nn.Module | None = None,
    kind: str = "user",
    dtype: torch.dtype = torch.float32,
    source: Domain | None = None,
    labelled: Domain | None = None,
    target: Domain | None = None,
) -> tuple[Network, NetworkSpec]:
    """The network for samples of this shape, and the description from which `build_network` makes it again.

    `module` is a backbone to build on: the user's own, or a pretrained one whose name is `kind`.  A network whose first
    layer is fitted to the source (with `bins` or `rank`, and for signals) needs the `source` as it is trained on, and
    the `labelled` part of the target if that is used in training, too.  If numbers are predicted, columns that have
    moved in the `target` are not divided into bins.
    """
    if module is not None:
        return _around(module, kind, shape, classes, options, dtype)
    kind = {1: "table", 2: "signal", 3: "digits"}.get(len(shape), "none")
    if options.backbone in BUILT_IN and options.backbone != kind:
        raise ArgumentError(
            f"backbone: {options.backbone!r} does not fit samples of shape {shape}; leave it out to choose by the data."
        )
    spec = NetworkSpec(
        kind=kind,
        shape=shape,
        classes=classes,
        features=options.features or (256 if kind == "table" else 128),
        hidden=options.hidden if kind == "table" else (),
        dropout=options.dropout,
        bins=options.bins,
        rank=options.rank,
        statistics=kind == "signal",
    )
    if not (options.bins or options.rank or kind == "signal"):
        return build_network(spec), spec
    if source is None:
        raise ArgumentError(
            "source: this network has a first layer that learns from the source, so the source is needed."
        )
    if options.rank:
        projected = source.samples if isinstance(source.samples, ProjectedSamples) else None
        stem = learn_directions(source, options.rank, labelled) if projected is None else projected.stem
        spec = replace(spec, shape=(stem.basis.shape[1],), rank=stem.width)
        network = build_network(spec)
        network.backbone.get_submodule("0").load_state_dict(stem.state_dict())
        return network, spec
    rows = some_inputs(source, labelled)
    if options.bins:
        there = None if target is None or source.values is None else some_inputs(target)
        spec = replace(spec, numbers=number_columns(rows, there))
    network = build_network(spec)
    for module in network.modules():
        if isinstance(module, Pieces | Statistics):
            module.learn(rows)
    return network, spec


def build_network(spec: NetworkSpec, module: nn.Module | None = None) -> Network:
    """The described network with new weights; `module` is the user's own backbone."""
    if spec.kind == "table":
        stem = _stem(spec)
        return table_network(spec.shape[0], spec.classes, spec.features, spec.hidden, spec.dropout, stem)
    if spec.kind == "digits":
        return digits_network(spec.shape, spec.classes, spec.features)
    if spec.kind == "signal":
        return signal_network(spec.shape, spec.classes, spec.features, spec.statistics)
    if module is None and spec.kind == "user":
        raise ArgumentError("backbone: this model was trained with your own module; pass backbone=that module.")
    if module is None:
        module = make_backbone(spec.kind, weights=None).module
    if spec.width is not None and spec.bottleneck:
        module = Bottleneck(module, spec.width, spec.features)
    return Network(module, features=spec.features, classes=spec.classes)


def _stem(spec: NetworkSpec) -> Stem | None:
    """The first layer of a network for rows, if its description has one."""
    if spec.bins:
        return Pieces(spec.shape[0], spec.numbers, spec.bins, blanks=spec.dropout > 0)
    return Directions(spec.shape[0], spec.rank) if spec.rank else None


def check_sizes(spec: NetworkSpec, shapes: Mapping[str, tuple[int, ...]], where: Any) -> None:
    """Refuse a description that does not fit weights of these shapes, before anything of its size is allocated."""
    last: dict[str, tuple[int | None, ...]] = {"classifier.weight": (spec.classes, spec.features)}
    if spec.bottleneck:
        last["backbone.bottleneck.weight"] = (spec.features, spec.width)
    if len(spec.hidden) > len(shapes):
        raise ArgumentError(f"{where}: network.hidden: {len(spec.hidden)} layers, which the weights do not have.")
    if spec.kind in BUILT_IN:
        with torch.device("meta"):
            last |= {name: tuple(value.shape) for name, value in build_network(spec).state_dict().items()}
    for name, shape in last.items():
        if shapes.get(name) != shape:
            raise ArgumentError(
                f"{where}: network: is described with {name} of shape {list(shape)}; the weights hold "
                f"{'none' if name not in shapes else list(shapes[name])}."
            )


def _around(
    module: nn.Module, kind: str, shape: tuple[int, ...], classes: int, options: NetworkOptions, dtype: torch.dtype
) -> tuple[Network, NetworkSpec]:
    pretrained = kind != "user"
    width = output_width(module, shape, dtype)
    spec = NetworkSpec(
        kind=kind,
        shape=shape,
        classes=classes,
        features=options.features or (256 if pretrained else width),
        width=width,
        bottleneck=pretrained or options.features not in (None, width),
    )
    network = build_network(spec, module)
    xavier(network.classifier)
    if isinstance(network.backbone, Bottleneck):
        xavier(network.backbone.bottleneck)
    return network, spec
