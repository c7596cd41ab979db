"""What a method trains: a backbone that embeds samples, and a linear classifier on the embedding."""

from __future__ import annotations

from torch import Tensor, nn


class Network(nn.Module):
    """x -> embedding z = backbone(x) `(b, d)` -> logits `(b, classes)`.

    >>> import torch
    >>> network = Network(nn.Flatten(), features=4, classes=3)
    >>> embedding, logits = network(torch.zeros(2, 1, 2, 2))
    >>> embedding.shape, logits.shape
    (torch.Size([2, 4]), torch.Size([2, 3]))
    """

    def __init__(self, backbone: nn.Module, *, features: int, classes: int) -> None:
        super().__init__()
        self.backbone = backbone
        self.classifier = nn.Linear(features, classes)
        self.features, self.classes = features, classes

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        z: Tensor = self.backbone(x)
        logits: Tensor = self.classifier(z)
        return z, logits


class Sigmoid(nn.Sigmoid):
    """The sigmoid of an embedding, never below float32: in bfloat16 values above .998 round to 1, where no gradient is.

    >>> import torch
    >>> x = torch.full((1,), 7.0, dtype=torch.bfloat16, requires_grad=True)
    >>> Sigmoid()(x).sum().backward()
    >>> bool(x.grad > 0)
    True
    """

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.float() if x.itemsize < 4 else x)


def xavier(module: nn.Module) -> None:
    """Xavier-normal weights and zero biases for every linear layer of `module`."""
    for layer in module.modules():
        # on the device meta there is nothing to draw, and torch would import its compiler for it
        if isinstance(layer, nn.Linear) and not layer.weight.is_meta:
            nn.init.xavier_normal_(layer.weight)
            nn.init.zeros_(layer.bias)
