"""Anderson mixing of a batch of contractions in few torch operations; `compiled/mixing.py` says why."""

from __future__ import annotations

import torch
from torch import Tensor

from jumbot.transport.entropic.policy import DEPTH

_WORSE = 2.0  # growth of the residual after which the memory is dropped
_RIDGE = 1e-10  # beside the squared residual


class Mixing:
    """The last differences of images and residuals `(B, m, DEPTH)` of points `(B, m, 1)`."""

    residual: Tensor
    image: Tensor
    limit: Tensor

    def __init__(self, weights: Tensor) -> None:
        self.root = weights.sqrt()[..., None]
        self.count = 0
        eye = torch.eye(DEPTH, dtype=weights.dtype, device=weights.device)[None]
        self.ridge, self.least = _RIDGE * eye, 1e-200 * eye

    def next(self, x: Tensor, image: Tensor, shift: Tensor) -> Tensor:
        """The next point after `x`, whose image is to be moved by -`shift` first."""
        image = image - shift
        residual = (image - x) * self.root
        norm = torch.linalg.vector_norm(residual, dim=1, keepdim=True)
        if self.count == 0:
            self.residuals, self.images = (x.new_zeros(*x.shape[:2], DEPTH) for _ in range(2))
            self.strikes = torch.zeros_like(norm)
            self._view()
        else:
            slope, move = self.columns[self.count % DEPTH]
            torch.sub(residual, self.residual, out=slope)
            torch.sub(image, self.image, out=move)
            worse = norm > self.limit
            self.residuals.masked_fill_(worse, 0.0)
            self.strikes += worse
        self.residual, self.image, self.limit = residual, image, _WORSE * norm
        self.count += 1
        normal = torch.baddbmm(torch.addcmul(self.least, self.ridge, norm.square()), self.residuals_T, self.residuals)
        share = torch.linalg.solve_ex(normal, torch.bmm(self.residuals_T, residual)).result
        return torch.baddbmm(image, self.images, share, alpha=-1)

    def _view(self) -> None:
        self.residuals_T = self.residuals.mT
        self.columns = list(zip(self.residuals.split(1, -1), self.images.split(1, -1), strict=True))

    def keep(self, index: Tensor) -> None:
        """Only the problems at `index`."""
        if len(self.root) > 1:
            self.root = self.root[index]
        if self.count:
            for name in ("residuals", "images", "residual", "image", "limit", "strikes"):
                setattr(self, name, getattr(self, name)[index])
            self._view()
