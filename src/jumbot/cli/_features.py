"""`jumbot features SRC`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from jumbot._settings.names import check_backbone, check_weights
from jumbot._settings.places import check_table_place
from jumbot._settings.reading import Corrupt
from jumbot._settings.training import Training
from jumbot.cli._arguments import Argument
from jumbot.cli._help import Command
from jumbot.cli._parsing import parse, usage_errors
from jumbot.cli._run_options import check_places
from jumbot.cli._terminal import say


@dataclass(frozen=True, kw_only=True)
class Features(Command):
    """Extract a table of features from images for `jumbot adapt` and `compare`; an interrupted call is resumed."""

    examples: ClassVar = (
        ("features of every domain in a folder", "jumbot features photos/ --out photos.npz"),
        ("with another network", "jumbot features photos/ --backbone resnet50 --out photos.npz"),
        ("adapt with the table", "jumbot adapt photos.npz:shop photos.npz:phone --out run"),
    )
    matter: ClassVar = ("out", "backbone", "weights", "views", "corrupt", "device")
    source: Annotated[str, Argument("SRC")]
    """Images: a folder (class/name.jpg), a folder of domains (domain/class/name.jpg), or a list (.txt)."""
    out: Path = Path("features.npz")
    """The table, .npz, .parquet or .csv; an existing one is not overwritten."""
    backbone: str = "efficientnet-lite0"
    """The network that extracts them: "efficientnet-lite0", "resnet50", ..., "timm:NAME"."""
    weights: str = "imagenet"
    """Its weights: "imagenet" for the published ones, or a file; "none" for random ones."""
    views: Literal["whole", "centre-crop"] = "whole"
    """"whole" resizes an image to the network's input, "centre-crop" takes the central 224 of 256 pixels."""
    corrupt: Corrupt = "refuse"
    """What to do with image files that cannot be read."""
    device: str = "auto"
    """Where to compute: auto, cpu, cuda, cuda:1, mps."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_backbone(self.backbone)
        check_weights(self.weights)
        Training(device=self.device)


def main(arguments: Sequence[str]) -> int:
    wanted = parse(Features, arguments)
    check_places(wanted.source)
    with usage_errors({"out"}):
        check_table_place(wanted.out)
    from jumbot.adaptation._training.accelerator import check_able, device_of
    from jumbot.adaptation._written_tables import write_features

    training = Training(device=wanted.device)
    check_able(training, reports=False)
    rows, width = write_features(
        wanted.source,
        wanted.out,
        backbone=wanted.backbone,
        weights=None if wanted.weights == "none" else wanted.weights,
        views=wanted.views,
        device=device_of(training),
        corrupt=wanted.corrupt,
    )
    say(f"{rows:,} rows of {width:,} features: {wanted.out}")
    return 0
