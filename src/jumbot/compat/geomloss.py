"""GeomLoss's `SamplesLoss`, solved by jumbot; other losses and names are GeomLoss's own."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from jumbot._base.options import check_flag, check_positive, check_word
from jumbot.cost import euclidean, squared_euclidean
from jumbot.errors import ArgumentError, need
from jumbot.transport._sinkhorn_divergence import sinkhorn_divergence
from jumbot.transport._solve import solve

_KERNELS = ("hausdorff", "energy", "gaussian", "laplacian")
_BACKENDS = ("auto", "tensorized", "online", "multiscale")


class SamplesLoss(nn.Module):
    r"""The Sinkhorn divergence of two weighted clouds, or their entropic transport, in GeomLoss's units.

    .. math::
        \varepsilon = \mathtt{blur}^p, \quad \tau = \mathtt{reach}^p, \quad
        C(x, y) = \|x - y\| \ (p = 1) \ \text{or} \ \tfrac12 \|x - y\|^2 \ (p = 2)

    It is called with (x, y) or (a, x, b, y); x is `(N, D)` or `(B, N, D)`.  Values and gradients are those of the
    optimum.

    Parameters
    ----------
    loss
        "sinkhorn"; the others ("hausdorff", "energy", "gaussian", "laplacian") are computed by GeomLoss, if installed.
    p
        1 or 2.
    blur, reach
        The roots of epsilon and tau; `reach=None` is balanced transport, between equal masses.
    diameter, scaling, truncate, cluster_scale
        How closely the descent of GeomLoss reaches the optimum; without effect here.
    cost
        A function of (x, y) `(B, N, D)`, `(B, M, D)` that returns `(B, N, M)`, instead of that of p.
    kernel, verbose
        As in GeomLoss, which computes the losses with a kernel.
    debias
        The divergence S (default), or the value of the entropic problem alone.
    potentials
        Return the pair of potentials, detached, instead of the value.  Without `reach` they are defined up to a
        constant, chosen so that both have the same weighted sum.
    backend
        "auto" and "tensorized" use a cost matrix; "online" and "multiscale" are GeomLoss's, by KeOps.

    Examples
    --------
    >>> import torch
    >>> x = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    >>> loss = SamplesLoss("sinkhorn", p=2, blur=0.05)
    >>> round(float(loss(x, x + 2)), 6)
    2.0
    """

    def __init__(
        self,
        loss: str = "sinkhorn",
        p: int = 2,
        blur: float = 0.05,
        reach: float | None = None,
        diameter: float | None = None,
        scaling: float = 0.5,
        truncate: float = 5,
        cost: Callable[[Tensor, Tensor], Tensor] | str | None = None,
        kernel: Any = None,
        cluster_scale: float | None = None,
        debias: bool = True,
        potentials: bool = False,
        verbose: bool = False,
        backend: str = "auto",
    ) -> None:
        super().__init__()
        check_word("loss", loss, ("sinkhorn", *_KERNELS))
        check_word("backend", backend, _BACKENDS)
        if p not in (1, 2):
            raise ArgumentError(f"p must be 1 or 2, got {p!r}.")
        self.loss, self.p, self.backend, self.cost = loss, p, backend, cost
        self.blur = check_positive("blur", blur)
        self.reach = None if reach is None else check_positive("reach", reach)
        self.debias, self.potentials = check_flag("debias", debias), check_flag("potentials", potentials)
        self._theirs: Any = None
        if loss != "sinkhorn" or backend in ("online", "multiscale") or isinstance(cost, str):
            module = need("geomloss", f"SamplesLoss({loss!r}, backend={backend!r})", "peers")
            self._theirs = module.SamplesLoss(
                loss=loss,
                p=p,
                blur=blur,
                reach=reach,
                diameter=diameter,
                scaling=scaling,
                truncate=truncate,
                cost=cost,
                kernel=kernel,
                cluster_scale=cluster_scale,
                debias=debias,
                potentials=potentials,
                verbose=verbose,
                backend=backend,
            )

    def forward(self, *clouds: Tensor) -> Any:
        """The loss of (x, y) or (a, x, b, y): a number, or one for each cloud of a batch."""
        if self._theirs is not None or len(clouds) == 6:
            theirs = self._theirs or need("geomloss", "labels of clusters", "peers").SamplesLoss(
                p=self.p, blur=self.blur, reach=self.reach, debias=self.debias, potentials=self.potentials
            )
            return theirs(*clouds)
        a, x, b, y = _read(clouds)
        epsilon = self.blur**self.p
        tau = math.inf if self.reach is None else self.reach**self.p
        if self.potentials:
            return self._potentials(a, x, b, y, epsilon, tau)
        if not self.debias:
            value = solve(self._cost(x, y), a, b, epsilon=epsilon, tau=tau).value
            masses = [x.new_ones(()) if w is None else w.sum(-1) for w in (a, b)]
            # GeomLoss's dual has epsilon (m_a + m_b)/2 where KL to the product of the weights has epsilon m_a m_b
            return value + epsilon * ((masses[0] + masses[1]) / 2 - masses[0] * masses[1])
        if self.cost is None and self.p == 2:  # half the cost is half the divergence at twice epsilon and tau
            return sinkhorn_divergence(x, y, a, b, epsilon=2 * epsilon, tau=2 * tau) / 2
        return sinkhorn_divergence(x, y, a, b, cost=self._cost, epsilon=epsilon, tau=tau)

    def _cost(self, x: Tensor, y: Tensor) -> Tensor:
        if callable(self.cost):
            # GeomLoss promises a batch to the function
            return self.cost(x, y) if x.ndim == 3 else self.cost(x[None], y[None])[0]
        if self.p == 1:
            return euclidean(x, y)
        return squared_euclidean(x, y) / 2

    def _potentials(
        self, a: Tensor | None, x: Tensor, b: Tensor | None, y: Tensor, epsilon: float, tau: float
    ) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            f, g = solve(self._cost(x, y), a, b, epsilon=epsilon, tau=tau).potentials
            if math.isinf(tau):
                f, g = _centred(f, g, a, b)
            if self.debias:
                own_f, own_g = solve(self._cost(x, x), a, a, epsilon=epsilon, tau=tau).potentials
                f = f - (own_f + own_g) / 2
                own_f, own_g = solve(self._cost(y, y), b, b, epsilon=epsilon, tau=tau).potentials
                g = g - (own_f + own_g) / 2
        return f, g


def _centred(f: Tensor, g: Tensor, a: Tensor | None, b: Tensor | None) -> tuple[Tensor, Tensor]:
    """Shifted so that <a, f> = <b, g>."""
    sums = [(p.mean(-1), p.new_ones(())) if w is None else ((w * p).sum(-1), w.sum(-1)) for p, w in ((f, a), (g, b))]
    shift = ((sums[1][0] - sums[0][0]) / (sums[0][1] + sums[1][1]))[..., None]
    return f + shift, g - shift


def _read(clouds: tuple[Tensor, ...]) -> tuple[Tensor | None, Tensor, Tensor | None, Tensor]:
    if len(clouds) not in (2, 4):
        raise ArgumentError(f"clouds must be (x, y) or (a, x, b, y), got {len(clouds)} arguments.")
    a, x, b, y = (None, clouds[0], None, clouds[1]) if len(clouds) == 2 else clouds
    for name, points in (("x", x), ("y", y)):
        if not isinstance(points, Tensor) or points.ndim not in (2, 3):
            raise ArgumentError(f"{name} must be a tensor of shape (N, D) or (B, N, D).")
    if x.ndim != y.ndim:
        raise ArgumentError(f"x, y must have the same number of axes, got {x.ndim} and {y.ndim}.")
    weights = [None if w is None else w.reshape(p.shape[:-1]) for w, p in ((a, x), (b, y))]
    return weights[0], x, weights[1], y


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(need("geomloss", f"jumbot.compat.geomloss.{name}", "peers"), name)
