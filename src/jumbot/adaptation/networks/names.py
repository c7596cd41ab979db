"""Which backbones and weights there are, said without building any."""

from __future__ import annotations

from pathlib import Path

from jumbot.errors import ArgumentError, suggest

RESNETS = ("resnet18", "resnet34", "resnet50", "resnet101", "resnet152")
OFFLINE = "efficientnet-lite0"
ENDINGS = (".pth", ".pt", ".bin", ".safetensors")
BUILT_IN = ("table", "digits", "signal")
"""Networks from scratch, which are no backbones for photographs."""


def check_backbone(name: str) -> None:
    """Refuse a name that is no network's.

    >>> check_backbone("resnet51")
    Traceback (most recent call last):
    jumbot.errors.ArgumentError: backbone: 'resnet51' is not known; did you mean 'resnet50'? Known: ...
    """
    if name not in (*BUILT_IN, OFFLINE, *RESNETS) and not (name.startswith("timm:") and len(name) > 5):
        raise ArgumentError(
            f"backbone: {name!r} is not known; {suggest(name, (*BUILT_IN, OFFLINE, *RESNETS, 'timm:NAME'))}"
        )


def check_weights(weights: str | Path, there: bool = True) -> None:
    """Refuse what is neither a word for weights nor a file that may hold some, and must be `there`."""
    if str(weights) in ("imagenet", "none"):
        return
    file = Path(weights).expanduser()
    if file.suffix not in ENDINGS:
        raise ArgumentError(
            f"weights: {str(weights)!r} came in; give 'imagenet', 'none' or a file that ends in {', '.join(ENDINGS)}."
        )
    if there and not file.is_file():
        raise ArgumentError(f"weights: there is no file {file}.")
