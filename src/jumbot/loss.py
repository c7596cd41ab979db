"""The transport loss of JUMBOT, for any training loop."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from jumbot._base.options import check_non_negative, check_positive, check_word
from jumbot.cost import LABEL_LOSSES, joint_cost
from jumbot.errors import ArgumentError, NotFiniteError, hinting
from jumbot.transport._checks import check_dense, uncompiled
from jumbot.transport._placement import check_engine
from jumbot.transport._problem import REFERENCES
from jumbot.transport._solve import solve
from jumbot.transport.divergences import parse

SCALE = 360.0  # mean squared distance between source embeddings, ResNet-50 features behind a Xavier bottleneck of 256
_MEMORY = 0.1
_SUMS = 1e-2  # tolerance for the sum of probabilities in half precision


@dataclass(frozen=True)
class JointLoss:
    """What `JointTransportLoss` returns; `loss` and `value` have the same gradients, the rest is detached.

    Attributes
    ----------
    loss : Tensor
        <plan, C>, to train with.
    value : Tensor
        The full unbalanced objective, to compare models or epochs by: <plan, C> falls when mass is destroyed.
    plan : Tensor of shape (n, m)
        The plan.
    mass : Tensor
        The sum of the plan.
    wrong_mass : Tensor or None
        The share of the mass between different labels, if target labels were given.
    """

    loss: Tensor
    value: Tensor
    plan: Tensor
    mass: Tensor
    wrong_mass: Tensor | None = None


class JointTransportLoss(nn.Module):
    r"""Unbalanced transport between a labelled source and an unlabelled target minibatch.

    .. math::
        \min_P \langle C, P\rangle + \varepsilon\, \mathrm{KL}(P \mid R) + \tau\, \mathrm{KL}(P1 \mid \tfrac1n)
        + \tau\, \mathrm{KL}(P^\top 1 \mid \tfrac1m), \quad
        C_{ij} = \eta_1 \|z_i - z_j\|^2 + \eta_2\, L(y_i, f(z_j))

    with L the cross-entropy of classes, unless `label_loss` says otherwise.  The two minibatches may differ in size.
    For the paper's k > 1, add the losses of k pairs of minibatches and divide by k.  Under autocast the cost and the
    solver stay in float32 or float64.

    Parameters
    ----------
    eta1 : float
        Weight of the squared distance between features.
    eta2 : float
        Weight of the label loss.
    tau : float
        Strength of the marginal penalties; `math.inf` is balanced transport.
    epsilon : float
        Strength of the entropy; 0 is exact transport.
    reference : {"product", "ones"}, default "product"
        R: "product" is the paper's text, "ones" its published code.
    scale : float or "auto", optional
        Divide distances by the scale of the embedding: eta1 then has the meaning that it has if source samples have
        this mean squared distance, independently of the network ("auto": 360, as on the paper's image networks). The
        scale is a running mean over training.  By default distances are not scaled.
    label_loss : {"cross-entropy", "squared", "huber"}, default "cross-entropy"
        "squared" and "huber" are for numbers: labels are then `(n,)` or `(n, k)`, and predictions `(m, k)` take the
        place of logits.
    divergence : str, default "kl"
        The marginal penalty, as in `jumbot.solve`.
    mass : float, optional
        Transport exactly this share (m-POT); `tau` must then be `math.inf`.
    reward : float, default 0
        Subtracted from every cost, so that pairs that cost less earn something: with `divergence="range(0,1)"` they
        move, and the others stay (ELOT).
    tol : float, default 1e-6
        Bound on the relative gap, as in `jumbot.solve`.
    engine : {"auto", "cpu", "device"}, default "auto"
        Where minibatches on a GPU are solved, as in `jumbot.solve`.

    Raises
    ------
    jumbot.ArgumentError
        If an argument is out of its range.
    jumbot.NotFiniteError
        When called, if the cost between the minibatches is NaN or infinite.

    Examples
    --------
    >>> torch.manual_seed(0)  # doctest: +ELLIPSIS
    <torch...>
    >>> loss = JointTransportLoss(0.1, 0.1, tau=1.0, epsilon=0.1)
    >>> z, logits = torch.randn(6, 3, requires_grad=True), torch.randn(4, 2, requires_grad=True)
    >>> out = loss(z, torch.tensor([0, 0, 0, 1, 1, 1]), torch.randn(4, 3), logits)
    >>> out.loss.backward()
    >>> out.plan.shape, logits.grad.shape
    (torch.Size([6, 4]), torch.Size([4, 2]))
    """

    if TYPE_CHECKING:  # torch types every call of a module as Any
        __call__: Callable[..., JointLoss]

    @hinting
    def __init__(
        self,
        eta1: float,
        eta2: float,
        tau: float,
        epsilon: float,
        reference: str = "product",
        *,
        scale: float | str | None = None,
        label_loss: str = "cross-entropy",
        divergence: str = "kl",
        mass: float | None = None,
        reward: float = 0.0,
        tol: float = 1e-6,
        engine: str = "auto",
    ) -> None:
        super().__init__()
        self.eta1 = check_non_negative("eta1", eta1)
        self.eta2 = check_non_negative("eta2", eta2)
        self.tau = check_positive("tau", tau, infinite=True)
        self.epsilon = check_non_negative("epsilon", epsilon)
        self.tol = check_non_negative("tol", tol)
        self.reference, self.engine = check_word("reference", reference, REFERENCES), check_engine(engine)
        self.label_loss = check_word("label_loss", label_loss, LABEL_LOSSES)
        parse(divergence)
        self.divergence, self.reward = divergence, check_non_negative("reward", reward)
        self.mass = None if mass is None else check_positive("mass", mass)
        if mass is not None and (tau != math.inf or divergence != "kl"):
            raise ArgumentError(
                "mass: needs tau=math.inf and the default divergence; mass that stays behind has no penalty."
            )
        self.scale = None if scale is None else EmbeddingScale(scale)

    def extra_repr(self) -> str:
        names = "eta1", "eta2", "tau", "epsilon", "reference", "label_loss"
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in names)

    def forward(
        self,
        features_s: Tensor,
        labels_s: Tensor,
        features_t: Tensor,
        logits_t: Tensor,
        labels_t: Tensor | None = None,
        *,
        weights_s: Tensor | None = None,
    ) -> JointLoss:
        """The loss between a source and a target minibatch.

        Parameters
        ----------
        features_s : Tensor of shape (n, d)
            Features of the source samples.
        labels_s : Tensor of shape (n,) or (n, c)
            Their classes, or probabilities of classes; numbers where `label_loss` is for numbers.
        features_t : Tensor of shape (m, d)
            Features of the target samples.
        logits_t : Tensor of shape (m, c)
            Their logits, or predicted numbers.
        labels_t : Tensor of shape (m,), optional
            Classes of the target samples, for `wrong_mass` only; below 0 where they are unknown.
        weights_s : Tensor of shape (n,), optional
            Relative weights of the source samples; equal by default.

        Returns
        -------
        JointLoss
            `loss`, `value`, `plan`, `mass` and `wrong_mass`.
        """
        if torch.compiler.is_compiling():  # one break of the graph, instead of one for each check
            return _uncompiled(self, features_s, labels_s, features_t, logits_t, labels_t, weights_s=weights_s)
        given = {"features_s": features_s, "labels_s": labels_s, "features_t": features_t, "logits_t": logits_t}
        _check_tensors(given, labels_t=labels_t, weights_s=weights_s)
        if self.label_loss != "cross-entropy":
            labels_s = _check_numbers(labels_s, logits_t, labels_t)
        _check(features_s, labels_s, features_t, logits_t, labels_t, self.label_loss == "cross-entropy")
        a = None if weights_s is None else _weights(weights_s, features_s)
        with torch.autocast(features_s.device.type, enabled=False):
            features_s, features_t = _full(features_s), _full(features_t)
            eta1 = self.eta1 if self.scale is None else self.eta1 * self.scale(features_s)
            cost = joint_cost(
                features_s,
                labels_s.long() if labels_s.ndim == 1 else _full(labels_s),
                features_t,
                _full(logits_t),
                eta1,
                self.eta2,
                self.label_loss,
            )
            cost = cost - self.reward if self.reward else cost
            if not torch.isfinite(cost.detach().sum()):
                raise NotFiniteError(
                    "the cost between the minibatches is not finite: features or logits contain NaN or infinity; "
                    "lower the learning rate, or scale the inputs."
                )
            solution = solve(
                cost,
                None if a is None else a.to(cost.dtype),
                epsilon=self.epsilon,
                tau=self.tau,
                divergence=self.divergence,
                reference=self.reference,
                mass=self.mass,
                tol=self.tol,
                engine=self.engine,
            )
            plan, mass = solution.plan, solution.mass
            wrong = None if labels_t is None else mass_between(plan, labels_s, labels_t)
            linear = solution.linear + self.reward * mass if self.reward else solution.linear
            return JointLoss(linear, solution.value, plan, mass, wrong)


_uncompiled: Callable[..., JointLoss] = uncompiled(JointTransportLoss.forward, "jumbot.JointTransportLoss")


class EmbeddingScale(nn.Module):
    r"""`typical` / s, where s follows the mean squared distance between the source samples of each minibatch.

    .. math:: s \leftarrow .9\, s + .1\, \tfrac{2}{n} \textstyle\sum_i \|z_i - \bar z\|^2

    s is detached, starts with the first minibatch, and is not updated in evaluation mode.  Each minibatch is scaled by
    the s of those before it, and then updates s; with `deferred`, s is updated when `settle` is called, by the mean of
    all minibatches since.  Multiplying every embedding by a constant multiplies s by its square, and leaves scaled
    distances as they are.

    >>> scale = EmbeddingScale(8.0)
    >>> z = torch.tensor([[0.0], [2.0]])
    >>> scale(z), scale(10 * z), scale(z).round(decimals=2)
    (tensor(4.), tensor(4.), tensor(0.3700))
    """

    square: Tensor
    deferred = False

    def __init__(self, typical: float | str = "auto") -> None:
        super().__init__()
        self.typical = SCALE if typical == "auto" else check_positive("scale", typical)
        self.register_buffer("square", torch.zeros(()))
        self.seen: list[Tensor] = []

    def extra_repr(self) -> str:
        return f"{self.typical:g}"

    @torch.no_grad()
    def forward(self, features_s: Tensor) -> Tensor:
        """The factor by which squared distances between embeddings are to be multiplied, where these are."""
        now = 2 * features_s.detach().float().var(0, correction=0).sum()
        known = self.square.to(now.device)  # a look at embeddings that have come back from the device
        square = torch.where(known > 0, known, now)
        if self.training:
            self.seen.append(now)
            if not self.deferred:
                self.settle()
        # one sample, or equal ones: there is no scale to follow
        return torch.where(square > 0, self.typical / square, 1.0)

    @torch.no_grad()
    def settle(self, mean: Callable[[Tensor], Tensor] = torch.clone) -> None:
        """Update s from the minibatches seen; `mean` averages over processes, if there are several."""
        if self.seen:
            now = mean(torch.stack(self.seen).mean())
            self.square = torch.where(self.square > 0, (1 - _MEMORY) * self.square + _MEMORY * now, now)
            self.seen = []


def mass_between(plan: Tensor, labels_s: Tensor, labels_t: Tensor) -> Tensor:
    """The share of the mass of `plan` that lies between different labels; target labels below 0 are left out.

    >>> mass_between(torch.tensor([[0.3, 0.1]]), torch.tensor([0]), torch.tensor([0, 1]))
    tensor(0.2500)
    """
    classes = labels_s if labels_s.ndim == 1 else labels_s.argmax(-1)
    known = plan[:, labels_t >= 0]
    wrong = known * (classes[:, None] != labels_t[None, labels_t >= 0])
    return wrong.sum() / known.sum()


def _full(x: Tensor) -> Tensor:
    return x if x.dtype == torch.float64 else x.float()


def _weights(weights: Tensor, features_s: Tensor) -> Tensor:
    if weights.shape != features_s.shape[:1]:
        raise ArgumentError(f"weights_s: shape {tuple(weights.shape)}; it must be ({len(features_s)},).")
    total = weights.sum()
    if not (bool((weights >= 0).all()) and bool(torch.isfinite(total)) and float(total) > 0):
        raise ArgumentError("weights_s: they must be finite and not negative, and some must be above 0.")
    return _full(weights / total)


def _check_numbers(labels_s: Tensor, outputs_t: Tensor, labels_t: Tensor | None) -> Tensor:
    """The labels as `(n, k)`."""
    if labels_t is not None:
        raise ArgumentError("labels_t: only class labels can be checked; leave it out when numbers are predicted.")
    if labels_s.is_complex() or not bool(torch.isfinite(labels_s).all()):
        raise ArgumentError(f"labels_s: got {labels_s.dtype}; numbers must be real and finite.")
    if outputs_t.ndim != 2:
        raise ArgumentError(f"logits_t: shape {tuple(outputs_t.shape)}; predictions of numbers are (m, k).")
    return labels_s[:, None] if labels_s.ndim == 1 else labels_s


def _check_tensors(needed: Mapping[str, Any], **optional: Any) -> None:
    for name, x in {**needed, **{name: x for name, x in optional.items() if x is not None}}.items():
        if not isinstance(x, Tensor):
            raise ArgumentError(f"{name}: got {type(x).__name__}; pass a torch tensor.")
        check_dense(x, name)


def _check(
    features_s: Tensor, labels_s: Tensor, features_t: Tensor, logits_t: Tensor, labels_t: Tensor | None, soft: bool
) -> None:
    if features_s.ndim != 2 or features_t.ndim != 2 or features_s.shape[1] != features_t.shape[1]:
        raise ArgumentError(
            f"features_s, features_t: shapes {tuple(features_s.shape)} and {tuple(features_t.shape)}; "
            "they must be (n, d) and (m, d) with the same d."
        )
    if logits_t.ndim != 2 or len(logits_t) != len(features_t):
        raise ArgumentError(
            f"logits_t: shape {tuple(logits_t.shape)}; it must be ({len(features_t)}, classes), "
            "one row per target sample."
        )
    if labels_s.shape not in (features_s.shape[:1], (len(features_s), logits_t.shape[1])):
        raise ArgumentError(
            f"labels_s: shape {tuple(labels_s.shape)}; it must be ({len(features_s)},) or "
            f"({len(features_s)}, {logits_t.shape[1]})."
        )
    if labels_s.ndim == 1:
        if labels_s.is_floating_point() or labels_s.is_complex():
            raise ArgumentError(f"labels_s: {labels_s.dtype}; class numbers must be integers.")
        if len(labels_s) and not 0 <= int(labels_s.min()) <= int(labels_s.max()) < logits_t.shape[1]:
            raise ArgumentError(
                f"labels_s: from {int(labels_s.min())} to {int(labels_s.max())}; logits_t has {logits_t.shape[1]} "
                f"classes, so labels must lie in 0..{logits_t.shape[1] - 1}."
            )
    elif soft and not bool(((labels_s >= 0).all(-1) & ((_full(labels_s).sum(-1) - 1).abs() < _SUMS)).all()):
        raise ArgumentError("labels_s: rows must be probabilities, >= 0 and sum to 1. Apply a softmax to logits first.")
    if labels_t is not None and labels_t.shape != features_t.shape[:1]:
        raise ArgumentError(f"labels_t: shape {tuple(labels_t.shape)}; it must be ({len(features_t)},).")
