"""Tensors that say they are on a device that this machine lacks: enough of one to see what is copied where.

Torch differentiates nothing on a device that it was not built for, so gradients need a real one (`test_device.py`).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map


class Pretend(Tensor):
    """Held and computed on the CPU; like mps it knows no float64."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> Pretend:
        assert held.dtype != torch.float64, "this device has no float64"
        out = Tensor._make_wrapper_subclass(cls, held.size(), strides=held.stride(), dtype=held.dtype, device="mps")
        out.held = held
        return out

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise AssertionError(f"{func} outside of the device's mode")


class Door(TorchFunctionMode):
    """Lets tensors in; torch would stop them before any dispatch."""

    def __init__(self, copies: dict[str, int]) -> None:
        super().__init__()
        self.copies = copies

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is Tensor.to and args[1:] == (torch.device("mps"),):
            self.copies["to"] += 1
            return Pretend(args[0])
        return func(*args, **(kwargs or {}))


class Device(TorchDispatchMode):
    """Runs what is asked of `Pretend` tensors; `copies` counts those `to` the device and `off` it."""

    def __init__(self) -> None:
        super().__init__()
        self.copies = {"to": 0, "off": 0}
        self.door = Door(self.copies)

    def __enter__(self) -> Device:
        self.door.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self.door.__exit__(*error)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        here = any(isinstance(x, Pretend) for x in tree_leaves((args, kwargs)))
        if here and kwargs.get("device") is not None:
            here = False
            self.copies["off"] += 1
        args, kwargs = tree_map(lambda x: x.held if isinstance(x, Pretend) else x, (args, kwargs))
        out = func(*args, **kwargs)
        return tree_map(lambda x: Pretend(x) if isinstance(x, Tensor) and here else x, out)
