"""Ground costs between points: `(..., n, d)` and `(..., m, d)` -> `(..., n, m)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from jumbot._base.options import check_word
from jumbot.errors import ArgumentError

Cost = Callable[[Tensor, Tensor], Tensor]
_FEW = 8  # up to this many coordinates the differences are summed, which loses no digits
_NEAR = 1e-3  # of the largest squared distance: below, differences are summed at any number of coordinates
_AT_ONCE = 1 << 22  # coordinates of them in memory


def _squared(x: Tensor, y: Tensor) -> Tensor:
    if x.shape[-1] <= _FEW:
        total = x.new_zeros(())
        for k in range(x.shape[-1]):
            total = total + (x[..., :, None, k] - y[..., None, :, k]).square_()
        return total
    # around a common centre |x|^2 + |y|^2 - 2 <x, y> cancels least
    centre = x.mean(-2, keepdim=True)
    x, y = x - centre, y - centre
    out = x.square().sum(-1)[..., :, None] + y.square().sum(-1)[..., None, :]
    return out.sub_(x @ y.mT, alpha=2).clamp_min_(0)


def _distances(x: Tensor, y: Tensor) -> Tensor:
    squared = _squared(x, y)
    if x.shape[-1] > _FEW:
        # for points that nearly coincide, the product keeps few digits, and the root magnifies the error: 1e-4 in
        # float32
        near = torch.nonzero(squared < _NEAR * squared.amax((-2, -1), keepdim=True))
        x, y = (u.expand(*squared.shape[:-2], -1, -1) for u in (x, y))
        for pairs in near.split(_AT_ONCE // x.shape[-1] + 1):
            *batch, i, j = pairs.unbind(-1)
            squared[(*batch, i, j)] = (x[(*batch, i)] - y[(*batch, j)]).square().sum(-1)
    return squared.sqrt_()


def _pull_back(weights: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients in x and y of <weights, |x - y|^2>."""
    centre = x.mean(-2, keepdim=True)
    x, y = x - centre, y - centre
    grad_x = 2 * (weights.sum(-1)[..., None] * x - weights @ y)
    grad_y = 2 * (weights.sum(-2)[..., None] * y - weights.mT @ x)
    return grad_x, grad_y


class _SquaredEuclidean(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(x, y)
        return _squared(x, y)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        x, y = ctx.saved_tensors
        grad_x, grad_y = _pull_back(grad, x, y)
        return grad_x.sum_to_size(x.shape), grad_y.sum_to_size(y.shape)


class _Euclidean(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        distance = _distances(x, y)
        ctx.save_for_backward(x, y, distance)
        return distance

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        x, y, distance = ctx.saved_tensors
        # at distance zero the subgradient 0 is taken; a division by it would leave NaN in second derivatives
        weights = torch.where(distance > 0, grad / (2 * torch.where(distance > 0, distance, 1.0)), 0.0)
        grad_x, grad_y = _pull_back(weights, x, y)
        return grad_x.sum_to_size(x.shape), grad_y.sum_to_size(y.shape)


def squared_euclidean(x: Tensor, y: Tensor) -> Tensor:
    """C_ij = |x_i - y_j|^2.

    >>> squared_euclidean(torch.tensor([[0.0], [1.0]]), torch.tensor([[3.0]]))
    tensor([[9.],
            [4.]])
    """
    return _SquaredEuclidean.apply(x, y)


def euclidean(x: Tensor, y: Tensor) -> Tensor:
    """C_ij = |x_i - y_j|.

    >>> euclidean(torch.tensor([[0.0], [1.0]]), torch.tensor([[3.0]]))
    tensor([[3.],
            [2.]])
    """
    return _Euclidean.apply(x, y)


def cosine(x: Tensor, y: Tensor) -> Tensor:
    """C_ij = 1 - <x_i, y_j> / (|x_i| |y_j|).

    >>> cosine(torch.tensor([[2.0, 0.0]]), torch.tensor([[0.0, 3.0], [1.0, 0.0]]))
    tensor([[1., 0.]])
    """
    for name, points in (("x", x), ("y", y)):
        if not bool((points.detach() != 0).any(-1).all()):
            raise ArgumentError(f"{name}: a point is zero and has no direction for the cosine cost.")
    # half the squared distance of directions: 1 - <u, v> would lose the digits of directions that nearly agree
    x, y = (z / torch.linalg.vector_norm(z, dim=-1, keepdim=True) for z in (x, y))
    return squared_euclidean(x, y) / 2


def wfr(x: Tensor, y: Tensor) -> Tensor:
    r"""C_ij = -log cos^2(|x_i - y_j|), infinite from pi/2 on: the Wasserstein-Fisher-Rao cost.

    With KL marginals at tau = 1, mass travels less than pi/2 and otherwise grows or shrinks.  Divide points in other
    units by the distance from which growth is cheaper, times 2/pi.

    >>> wfr(torch.tensor([[0.0]]), torch.tensor([[0.0], [2.0]]))
    tensor([[0., inf]])
    """
    distance = euclidean(x, y)
    far = distance >= torch.pi / 2
    # select first: beyond pi/2, the derivative of the logarithm would be NaN times zero
    return torch.where(far, torch.inf, -2 * torch.log(torch.cos(torch.where(far, 0.0, distance))))


LABEL_LOSSES = ("cross-entropy", "squared", "huber")
"""The losses of a label and an output: for classes, and for numbers."""


def label_cost(labels_s: Tensor, outputs_t: Tensor, label_loss: str = "cross-entropy") -> Tensor:
    r"""L_ij = the loss of output j for label i.

    "cross-entropy": labels are class numbers `(n,)` or probabilities `(n, classes)`, outputs logits `(m, classes)`.
    "squared": labels are numbers `(n, k)`, outputs `(m, k)`, and L_ij is the mean over k of r^2, r = y_i - f_j;
    "huber": of r^2 / 2 where |r| <= 1, |r| - 1/2 beyond.

    >>> label_cost(torch.tensor([[0.0], [2.0]]), torch.tensor([[3.0]]), "squared")
    tensor([[9.],
            [1.]])
    """
    if label_loss == "cross-entropy":
        log_p = torch.log_softmax(outputs_t, -1)
        # a gather, not a product with one-hot labels: 0 * -inf would be NaN
        if labels_s.ndim == 1:
            return -log_p.index_select(-1, labels_s).mT
        dtype = torch.promote_types(labels_s.dtype, log_p.dtype)
        return -labels_s.to(dtype) @ log_p.to(dtype).mT
    return number_loss(labels_s[:, None], outputs_t[None], label_loss)


def number_loss(labels: Tensor, outputs: Tensor, label_loss: str) -> Tensor:
    """The loss of each row `(..., k)` of numbers, the mean over k; labels and outputs may broadcast."""
    residual = labels - outputs
    if label_loss == "squared":
        return residual.square().mean(-1)
    size = residual.abs()
    return torch.where(size <= 1, size.square() / 2, size - 0.5).mean(-1)


def joint_cost(
    features_s: Tensor,
    labels_s: Tensor,
    features_t: Tensor,
    logits_t: Tensor,
    eta1: float | Tensor,
    eta2: float,
    label_loss: str = "cross-entropy",
) -> Tensor:
    r"""C_ij = eta1 |z_i - z_j|^2 + eta2 L(y_i, f_j), between labelled source and unlabelled target points.

    L is `label_cost`; by default the cross-entropy of class numbers `(n,)` or probabilities `(n, classes)` with
    logits `(m, classes)`.

    >>> z, logits = torch.zeros(1, 2), torch.tensor([[0.0, 0.0]])
    >>> joint_cost(z, torch.tensor([1]), z + 1, logits, 0.5, 1.0)
    tensor([[1.6931]])
    """
    return eta1 * squared_euclidean(features_s, features_t) + eta2 * label_cost(labels_s, logits_t, label_loss)


COSTS: dict[str, Cost] = {"sqeuclidean": squared_euclidean, "euclidean": euclidean, "cosine": cosine, "wfr": wfr}


def parse_cost(cost: str | Cost) -> Cost:
    """The cost of that name, or the callable itself."""
    if callable(cost):
        return cost
    return COSTS[check_word("cost", cost, COSTS, " Or pass a callable (x, y) -> C.")]
