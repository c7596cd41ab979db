"""Names that can be checked without torch: of backbones and of divergences."""

from __future__ import annotations

import re
from pathlib import Path

from jumbot.errors import ArgumentError, suggest

RESNETS = ("resnet18", "resnet34", "resnet50", "resnet101", "resnet152")
OFFLINE = "efficientnet-lite0"
ENDINGS = (".pth", ".pt", ".bin", ".safetensors")
BUILT_IN = ("table", "digits", "signal")
"""Networks that are trained from scratch and cannot be backbones for photographs."""


def check_backbone(name: str) -> None:
    """Refuse an unknown name.

    >>> check_backbone("resnet51")
    Traceback (most recent call last):
    jumbot.errors.ArgumentError: backbone: 'resnet51' is not known; did you mean 'resnet50'? Known: ...
    """
    if name not in (*BUILT_IN, OFFLINE, *RESNETS) and not (name.startswith("timm:") and len(name) > 5):
        raise ArgumentError(
            f"backbone: {name!r} is not known; {suggest(name, (*BUILT_IN, OFFLINE, *RESNETS, 'timm:NAME'))}"
        )


def check_weights(weights: str | Path, there: bool = True) -> None:
    """Refuse anything but the words for weights and a file of weights, which must exist if `there`."""
    if str(weights) in ("imagenet", "none"):
        return
    file = Path(weights).expanduser()
    if file.suffix not in ENDINGS:
        raise ArgumentError(
            f"weights: got {str(weights)!r}; pass 'imagenet', 'none' or a file that ends in {', '.join(ENDINGS)}."
        )
    if there and not file.is_file():
        raise ArgumentError(f"weights: {file} does not exist.")


NAMES = ("kl", "tv", "chi2", "l2", "range", "power", "balanced")
_SHOWN = ("kl", "tv", "chi2", "l2", "range(lo,hi)", "power(p)", "balanced")


def read_divergence(text: str) -> tuple[str, list[float]]:
    """Name and arguments.

    >>> read_divergence("range(0.8, 1.25)")
    ('range', [0.8, 1.25])
    """
    match = re.fullmatch(r"\s*([\w-]+)\s*(?:\(([^()]*)\))?\s*", text)
    name = match[1].lower() if match else ""
    if match is None or name not in NAMES:
        raise ArgumentError(f"divergence: {text!r} is not known; {suggest(text, _SHOWN)}")
    try:
        return name, [float(part) for part in match[2].split(",")] if match[2] else []
    except ValueError as error:
        raise do_not_fit(text) from error


def do_not_fit(text: str) -> ArgumentError:
    """The message about arguments that a divergence does not accept."""
    return ArgumentError(f"divergence: {text!r} has invalid arguments; write for example 'range(0.8,1.25)' or 'kl'.")
