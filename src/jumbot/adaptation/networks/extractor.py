"""A frozen backbone as the first part of a model: it turns images into features, once each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from torch import nn

from jumbot.adaptation.networks.backbones import Backbone, make_backbone
from jumbot.adaptation.networks.features import default_cache, extract, fingerprint
from jumbot.data.domain import Domain
from jumbot.data.inputs import InputFormat, scaled
from jumbot.errors import ArgumentError


@dataclass(frozen=True)
class Extractor:
    """Images in the backbone's format -> rows of features, kept in a cache by content."""

    backbone: Backbone
    weights: str | None = None
    cache: Path | None = None
    format: InputFormat | None = None
    """The scale of the features, learned on those of the source."""
    device: str = "cpu"
    workers: int | None = None

    def __call__(self, domain: Domain) -> Domain:
        cache = self.cache if self.cache is not None else default_cache()
        found = extract(self.backbone, domain, cache, device=self.device, workers=self.workers)
        return found if self.format is None else self.format.apply(found)

    def beside(self, network: nn.Module) -> Extractor:
        """This extractor on the device of `network`, where that is not the CPU."""
        device = next(network.parameters()).device
        return self if device.type == "cpu" else replace(self, device=str(device))

    def scaled_on(self, source: Domain, standardise: str) -> Extractor:
        """This extractor, with the features of `source`, an image domain, brought to one scale."""
        features = replace(self, format=None)(source)
        return replace(self, format=scaled(InputFormat("features", width=features.shape[0]), features, standardise))

    def to_json(self) -> dict[str, Any]:
        """What a saved model says of its backbone; the weights stay where they are."""
        described = {"name": self.backbone.name, "weights": self.weights}
        format = None if self.format is None else asdict(self.format)
        return {**described, "fingerprint": fingerprint(self.backbone.module), "format": format}

    @classmethod
    def from_json(cls, described: Mapping[str, Any], module: nn.Module | None = None) -> Extractor:
        """The same backbone again; other weights under the same name are refused."""
        if module is None and described["name"] == "user":
            raise ArgumentError("backbone: this model was trained on a module of your own; pass backbone=that module.")
        weights = described["weights"]
        backbone = make_backbone(described["name"] if module is None else module, weights, freeze=True)
        if fingerprint(backbone.module) != described["fingerprint"]:
            raise ArgumentError(
                f"backbone: {described['name']} with weights {weights!r} is not what this model was trained on; its "
                "weights or its code have changed."
            )
        format = described.get("format")
        return cls(backbone, weights, format=None if format is None else InputFormat.from_dict(format))
