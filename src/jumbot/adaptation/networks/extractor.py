"""A frozen backbone as the first part of a model: it turns images into features, once each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from jumbot.adaptation.networks.backbones import Backbone, make_backbone
from jumbot.adaptation.networks.features import default_cache, extract, fingerprint
from jumbot.data.domain import Domain
from jumbot.errors import ArgumentError


@dataclass(frozen=True)
class Extractor:
    """Images in the backbone's format -> rows of features, kept in a cache by content."""

    backbone: Backbone
    weights: str | None = None
    cache: Path | None = None

    def __call__(self, domain: Domain) -> Domain:
        return extract(self.backbone, domain, self.cache if self.cache is not None else default_cache())

    def to_json(self) -> dict[str, Any]:
        """What a saved model says of its backbone; the weights stay where they are."""
        return {"name": self.backbone.name, "weights": self.weights, "fingerprint": fingerprint(self.backbone.module)}

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
        return cls(backbone, weights)
