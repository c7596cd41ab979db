"""Checks of the arguments of public functions: what was expected, what was given, what to do."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import forward_ad

from jumbot._base.options import check_positive
from jumbot.errors import ArgumentError
from jumbot.transport._kernels.decorator import compiled
from jumbot.transport._kernels.threads import run, split

Array = Any  # a torch tensor or a numpy array: numpy in, numpy out
_transformed = getattr(getattr(torch._C, "_functorch", None), "is_functorch_wrapped_tensor", None)
_CPU = torch.device("cpu")
_SMALL = 10_000  # entries that OpenBLAS multiplies on one thread, which is the fastest way
_LARGE = 1 << 20  # entries whose sum takes longer than starting threads


def as_tensor(x: Array, name: str, like: Tensor | None = None, numpy: bool = False) -> Tensor:
    """`x` as a tensor of float32 or float64 on the device of `like`, or an error that says what to change.

    Integers become float64 and half precision float32, or the dtype of `like`; gradients are propagated.
    """
    check_dense(x, name)
    if isinstance(x, Tensor):
        if numpy:
            raise ArgumentError(f"{name}: a torch tensor with a numpy cost; pass all as torch or all as numpy.")
        if _has_tangent(x):
            raise ArgumentError(
                f"{name}: a dual tensor of torch.autograd.forward_ad, whose tangent would be lost; take gradients by "
                "backward() or torch.autograd.grad."
            )
        tensor = x.resolve_neg()  # NumPy cannot read a negated view
        if tensor.dtype not in (torch.float32, torch.float64):
            tensor = _widened(tensor, name, like)
    else:
        if like is not None and not numpy and isinstance(x, np.ndarray):
            raise ArgumentError(f"{name}: a numpy array with a torch cost; pass torch.from_numpy({name}).")
        array = np.asarray(x)
        if not array.dtype.isnative:  # byte order of other machines
            array = array.astype(array.dtype.newbyteorder("="))
        single = array.dtype == np.float16 if like is None else like.dtype == torch.float32
        listed = like is not None and not isinstance(x, np.ndarray)
        if array.dtype.kind in "iub" or array.dtype == np.float16 or (listed and array.dtype.kind == "f"):
            array = array.astype(np.float32 if single else np.float64)
        if array.dtype not in (np.float32, np.float64):
            raise ArgumentError(f"{name}: dtype {array.dtype}; pass float32 or float64, e.g. {name}.astype('float64').")
        tensor = from_numpy(array)
        if like is not None and like.device != tensor.device:
            tensor = tensor.to(like.device)
    if like is not None and tensor.dtype != like.dtype:
        raise ArgumentError(f"{name}: {tensor.dtype} with a cost of {like.dtype}; convert one of them.")
    if like is not None and tensor.device != like.device:
        raise ArgumentError(f"{name}: on {tensor.device} while the cost is on {like.device}; move one of them.")
    return tensor


def _has_tangent(x: Tensor) -> bool:
    """Whether a derivative is to be carried forward with `x`."""
    return getattr(forward_ad, "_current_level", 0) >= 0 and forward_ad.unpack_dual(x).tangent is not None


def _widened(tensor: Tensor, name: str, like: Tensor | None) -> Tensor:
    """Half precision and integers in a dtype in which problems are solved."""
    if tensor.is_complex() or tensor.is_quantized:
        raise ArgumentError(f"{name}: dtype {tensor.dtype}; pass float32 or float64, e.g. {name}.double().")
    own = torch.float32 if tensor.is_floating_point() else torch.float64
    return tensor.to(own if like is None else like.dtype)


def autocast(x: Array) -> str | None:
    """The type of device on which `torch.autocast` would round what is computed with `x`, or None."""
    device = "cpu" if not isinstance(x, Tensor) or x.is_meta else x.device.type
    return device if torch.is_autocast_enabled(device) else None


def uncompiled(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """`function` as `torch.compile` may call it: outside of its graph, with one graph break.

    The two attributes are those that `torch.compiler.disable` sets, whose imports take seconds.  A torch with other
    attributes also breaks the graph, and raises its own error for `fullgraph=True`.
    """

    def eager(*arguments: Any, **settings: Any) -> Any:
        return torch.compiler.disable(function)(*arguments, **settings)

    marks = {
        "_torchdynamo_disable": True,
        "_torchdynamo_disable_msg": (
            f"{name} cannot be part of a compiled graph: its iterations are compiled already, and their number "
            f"depends on the data. Use torch.compile without fullgraph=True; the graph then breaks once here."
        ),
    }
    vars(eager).update(marks)
    return eager


def from_numpy(array: np.ndarray) -> Tensor:
    """The array's own memory if torch can use it, otherwise a copy: of read-only arrays and those with negative
    strides.
    """
    # an array with one entry counts as contiguous even with negative strides
    plain = array.flags.writeable and min(array.strides, default=0) >= 0
    return torch.from_numpy(np.ascontiguousarray(array) if plain else array.copy())


def check_dense(x: Any, name: str) -> None:
    """Raise an error if `x` is not an ordinary array: sparse, masked, or without numbers."""
    if isinstance(x, Tensor):
        if x.layout is not torch.strided or x.is_nested:
            kind = "nested" if x.is_nested else str(x.layout).removeprefix("torch.")
            raise ArgumentError(f"{name}: a tensor of layout {kind}; pass an ordinary one, e.g. {name}.to_dense().")
        if _transformed is not None and _transformed(x):
            raise ArgumentError(
                f"{name}: a tensor within vmap, grad or another transform of torch.func, which cannot be solved; give "
                "a batch as leading axes, and take gradients by backward() or torch.autograd.grad."
            )
        if x.is_meta:
            raise ArgumentError(
                f"{name}: on the meta device, which holds no data; create it on another device, such as cpu."
            )
    elif hasattr(x, "toarray"):
        raise ArgumentError(f"{name}: {type(x).__name__} is sparse; pass {name}.toarray().")
    else:
        check_unmasked(x, name)


def check_unmasked(x: Any, name: str) -> None:
    """Raise an error if entries of `x` are masked, which NumPy's conversions ignore."""
    if isinstance(x, np.ma.MaskedArray) and np.ma.is_masked(x):
        raise ArgumentError(f"{name}: a masked array with masked entries; fill them first, e.g. {name}.filled(...).")


def probe(x: Tensor) -> float:
    """A number that is finite only if all entries are; it may overflow if they are very large."""
    if x.device.type != "cpu":
        return float(x.sum())
    # on one thread: torch's sum wakes OpenMP threads, which on a busy machine takes longer than solving
    array = x.numpy()
    if array.size <= _SMALL:
        return float(np.vdot(array, array))
    flat = array.reshape(-1)
    if array.size < _LARGE:
        return _sum(flat)
    return float(sum(run(_sum, (flat[slice(*part)] for part in split(len(flat), 8 * torch.get_num_threads())))))


@compiled(fastmath={"reassoc", "contract", "nsz"})  # a NaN stays one
def _sum(x: Any) -> float:
    """Four times as fast as NumPy for many entries."""
    found = 0.0
    for i in range(x.shape[0]):
        found += x[i]
    return found


def check_same_columns(names: str, x: Any, y: Any) -> None:
    """Raise an error if two frames have different column names, because columns are matched by position."""
    own, other = (list(getattr(points, "columns", ())) for points in (x, y))
    if own and other and own != other:
        raise ArgumentError(
            f"{names}: frames with the columns {', '.join(map(str, own[:6]))} and {', '.join(map(str, other[:6]))}; "
            "both need the same columns in the same order; otherwise pass arrays."
        )


def read_clouds(x: Array, y: Array, names: tuple[str, str] = ("x", "y")) -> tuple[Tensor, Tensor, torch.Size]:
    """Points as `(..., n, d)` and `(..., m, d)` and the shape of their batch, or an error that says what to change."""
    numpy, both = not isinstance(x, Tensor), ", ".join(names)
    if numpy:
        check_same_columns(both, x, y)
    x = as_tensor(x, names[0], numpy=numpy)
    y = as_tensor(y, names[1], x, numpy)
    for name, points in zip(names, (x.detach(), y.detach()), strict=True):
        if points.ndim < 2 or 0 in points.shape:
            raise ArgumentError(
                f"{name} must have the shape (..., points, coordinates) and not be empty, got {tuple(points.shape)}."
            )
        if not math.isfinite(probe(points)) and not bool(points.isfinite().all()):
            raise ArgumentError(f"{name} must be finite, got NaN or infinite coordinates; clean them first.")
    if x.shape[-1] != y.shape[-1]:
        raise ArgumentError(f"{both} must have the same number of coordinates, got {x.shape[-1]} and {y.shape[-1]}.")
    if x.shape[:-2] == y.shape[:-2]:
        return x, y, x.shape[:-2]
    try:
        return x, y, torch.Size(torch.broadcast_shapes(x.shape[:-2], y.shape[:-2]))
    except RuntimeError:
        raise ArgumentError(
            f"{both} must have batch shapes that broadcast, got {tuple(x.shape[:-2])} and {tuple(y.shape[:-2])}; "
            f"pass the same number of clouds for both, or a single one for one of them."
        ) from None


def read_potentials(
    name: str, pair: Any, sizes: Sequence[int], batch: Sequence[int], numpy: bool, device: torch.device = _CPU
) -> tuple[Tensor, Tensor]:
    """A pair (f, g) as `(B, n)` and `(B, m)`, detached, in float64.

    They are moved first, because the device that they come from may not know float64.
    """
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise ArgumentError(f"{name} must be a pair (f, g), such as the potentials of a solution.")
    out = []
    for letter, potential, size in zip("fg", pair, sizes, strict=True):
        x = as_tensor(potential, f"{name} ({letter})", numpy=numpy).detach().to(device).double()
        if x.ndim == 0 or x.shape[-1] != size:
            raise ArgumentError(f"{name}: {letter} must have the shape (..., {size}), got {tuple(x.shape)}.")
        try:
            out.append(x.expand(*batch, size).reshape(-1, size))
        except RuntimeError:
            raise ArgumentError(
                f"{name}: {letter} must broadcast to the batch {tuple(batch)}, got {tuple(x.shape)}."
            ) from None
    return out[0], out[1]


def read_start(
    init: Any, sizes: Sequence[int], batch: Sequence[int], numpy: bool, device: torch.device = _CPU
) -> tuple[Tensor, Tensor]:
    """The potentials of a solution, or a pair of them, to start from."""
    f, g = read_potentials("init", getattr(init, "potentials", init), sizes, batch, numpy, device)
    for letter, x in (("f", f), ("g", g)):
        if bool(x.isnan().any()):
            raise ArgumentError(f"init: {letter} contains NaN; start without init instead.")
    return f.nan_to_num(neginf=0.0, posinf=0.0), g.nan_to_num(neginf=0.0, posinf=0.0)


def called(ground: Callable[[Tensor, Tensor], Tensor], x: Tensor, y: Tensor) -> Tensor:
    """The costs between points `(..., n, d)` and `(..., m, d)`; an error if a function returns something else."""
    batch, other = x.shape[:-2], y.shape[:-2]
    batch = batch if batch == other else torch.broadcast_shapes(batch, other)
    costs, wanted = ground(x, y), (*batch, x.shape[-2], y.shape[-2])
    if not isinstance(costs, Tensor) or costs.shape != wanted:
        found = tuple(costs.shape) if isinstance(costs, Tensor) else type(costs).__name__
        raise ArgumentError(f"cost must return a tensor of shape {wanted} from x and y, got {found}.")
    return costs


def check_taus(tau: Any) -> tuple[float, float]:
    if type(tau) is float and tau > 0:
        return tau, tau
    pair = tau if isinstance(tau, Sequence) and not isinstance(tau, str) else (tau, tau)
    if len(pair) != 2:
        raise ArgumentError(f"tau: got {len(pair)} numbers; pass one number or a pair (source, target).")
    source, target = (check_positive("tau", t, infinite=True) for t in pair)
    return source, target
