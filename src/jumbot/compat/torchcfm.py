"""torchcfm's `OTPlanSampler`, with plans solved by jumbot; other names are torchcfm's own."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jumbot._base.options import check_flag, check_positive, check_word
from jumbot.cost import squared_euclidean
from jumbot.errors import need
from jumbot.transport._solve import solve

_METHODS = ("exact", "sinkhorn", "unbalanced", "partial")
_NOTHING = 1e-8  # no pairs can be drawn from a plan of less mass, as in torchcfm


class OTPlanSampler:
    """Pairs of a source and a target minibatch, drawn from their transport plan for squared Euclidean cost.

    Draws come from NumPy's global generator, as in torchcfm, so that `np.random.seed` gives the same pairs.

    Parameters
    ----------
    method
        "exact", "sinkhorn", "unbalanced" or "partial", which transports all mass.
    reg, reg_m
        epsilon, and tau of "unbalanced"; the reference of the entropy is the product of the weights.
    normalize_cost
        Divide the cost by its maximum.
    num_threads
        Accepted, without effect: POT has deprecated it, and the solver here decides itself.
    warn
        Whether to warn if an empty plan is replaced by a uniform one.

    Examples
    --------
    >>> import torch
    >>> x0, x1 = torch.tensor([[0.0], [1.0]]), torch.tensor([[1.1], [0.1]])
    >>> OTPlanSampler("exact").get_map(x0, x1)
    array([[0. , 0.5],
           [0.5, 0. ]])
    """

    def __init__(
        self,
        method: str,
        reg: float = 0.05,
        reg_m: float = 1.0,
        normalize_cost: bool = False,
        num_threads: int | str = 1,
        warn: bool = True,
    ) -> None:
        self.method = check_word("method", method, _METHODS)
        self.reg = check_positive("reg", reg)
        self.reg_m = check_positive("reg_m", reg_m, infinite=True)
        self.normalize_cost, self.warn = check_flag("normalize_cost", normalize_cost), check_flag("warn", warn)

    def get_map(self, x0: Tensor, x1: Tensor) -> np.ndarray:
        """The plan, `(n, m)`, a NumPy array."""
        plan: np.ndarray = self._plan(self._cost(x0, x1))
        if plan.sum() < _NOTHING:
            if self.warn:
                warnings.warn("The optimal plan moves no mass; a uniform plan is used instead.", stacklevel=2)
            plan = np.full_like(plan, 1 / plan.size)
        return plan

    def _cost(self, x0: Tensor, x1: Tensor) -> Tensor:
        with torch.no_grad():
            cost = squared_euclidean(x0.reshape(len(x0), -1), x1.reshape(len(x1), -1))
            return cost / cost.max() if self.normalize_cost else cost

    def _plan(self, cost: Tensor) -> Any:
        settings: dict[str, Any] = {"epsilon": 0.0 if self.method == "exact" else self.reg}
        if self.method == "unbalanced":
            settings["tau"] = self.reg_m
        return solve(cost.detach().cpu().double().numpy(), **settings).plan

    def sample_map(self, pi: np.ndarray, batch_size: int, replace: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """Rows and columns of `batch_size` pairs, drawn with probabilities pi / sum(pi)."""
        p = np.asarray(pi).ravel()
        chosen = np.random.choice(p.size, p=p / p.sum(), size=batch_size, replace=replace)  # noqa: NPY002 - as torchcfm
        i, j = np.divmod(chosen, pi.shape[1])
        return i, j

    def sample_plan(self, x0: Tensor, x1: Tensor, replace: bool = True) -> tuple[Tensor, Tensor]:
        """As many pairs as x0 has points, drawn from the plan."""
        i, j = self.sample_map(self.get_map(x0, x1), x0.shape[0], replace)
        return x0[i], x1[j]

    def sample_plan_with_scipy(self, x0: Tensor, x1: Tensor) -> tuple[Tensor, Tensor]:
        """x0 unchanged and x1 reordered by the optimal assignment; both flattened, as by torchcfm."""
        from scipy.optimize import linear_sum_assignment

        _, j = linear_sum_assignment(self._cost(x0, x1).cpu().numpy())
        x0, x1 = (x.reshape(len(x), -1) if x.ndim > 2 else x for x in (x0, x1))
        return x0, x1[j]

    def sample_plan_with_labels(
        self, x0: Tensor, x1: Tensor, y0: Any = None, y1: Any = None, replace: bool = True
    ) -> tuple[Any, Any, Any, Any]:
        """Pairs drawn from the plan, with their labels."""
        i, j = self.sample_map(self.get_map(x0, x1), x0.shape[0], replace)
        return x0[i], x1[j], None if y0 is None else y0[i], None if y1 is None else y1[j]

    def sample_trajectory(self, X: Any) -> np.ndarray:
        """`(batch, times, ...)`: from each point of the first time to the next, drawn from the plan of both times."""
        indices = [np.arange(X.shape[0])]
        for t in range(X.shape[1] - 1):
            plan = self.get_map(*(torch.as_tensor(X[:, t + k]) for k in (0, 1)))
            rows = plan[indices[-1]]
            rows = rows / rows.sum(1, keepdims=True)
            indices.append(np.array([np.random.choice(len(row), p=row) for row in rows]))  # noqa: NPY002 - as torchcfm
        return np.stack([np.asarray(X[:, t])[i] for t, i in enumerate(indices)], axis=1)


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(need("torchcfm.optimal_transport", f"jumbot.compat.torchcfm.{name}", "peers", "torchcfm"), name)
