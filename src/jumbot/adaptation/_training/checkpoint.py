"""Checkpoints: their content, and which of them are kept."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

import jumbot
from jumbot._base.files import check_regular, replacing
from jumbot._base.options import Weight, Whole
from jumbot._base.schema import FORMAT, Upgrade, Versioned, convert, to_builtins
from jumbot.adaptation._runs.folder import RunFolder
from jumbot.errors import ArgumentError, JumbotError, need
from jumbot.methods.base import Method
from jumbot.methods.network import Network


def save_tensors(path: Path, tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> None:
    """Tensors and a header as one file."""
    save_file = need("safetensors.torch", "a checkpoint", "adapt").save_file
    from safetensors import SafetensorError

    contiguous = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    try:
        with replacing(path) as part:
            try:
                save_file(contiguous, part, metadata={"jumbot": json.dumps(header)})
            except SafetensorError as error:  # raised if the disk is full
                raise OSError(str(error)) from error
    except JumbotError as error:
        raise JumbotError(f"{error} Use --resume to continue an interrupted run.") from error


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what `save_tensors` wrote; no code is executed."""
    safe_open = need("safetensors", f"{path}: it", "adapt").safe_open
    from safetensors import SafetensorError

    check_regular(path)
    try:
        with safe_open(path, framework="pt") as file:
            header = json.loads((file.metadata() or {}).get("jumbot", "null"))
            # copies: if another program overwrites a mapped file, this process crashes
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118 - not a dict
    except (OSError, SafetensorError, ValueError) as error:
        raise ArgumentError(f"{path}: cannot be read ({error}).") from error
    if not isinstance(header, dict):
        raise ArgumentError(f"{path}: was not written by jumbot.")
    return tensors, header


@dataclass(frozen=True)
class Header(Versioned):
    """The header of a file of weights: a whole model, or the progress of training."""

    kind: Literal["model", "checkpoint", "best", "before"]
    step: Whole | None = None
    seconds: Weight = 0.0
    tensors: Whole | None = None
    """The number of tensors in the file."""
    upgrades: ClassVar[Mapping[int, Upgrade]] = {1: lambda header: {"jumbot": "0.1", "kind": _kind(header)} | header}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.step is None and self.kind in ("checkpoint", "best"):
            raise ArgumentError(f"step: is missing; a file of kind {self.kind!r} has one.")


def save_weights(path: Path, tensors: Mapping[str, Tensor], kind: str, **facts: Any) -> None:
    """Tensors under a `Header`."""
    header = {"format": FORMAT, "jumbot": jumbot.__version__, "kind": kind, "tensors": len(tensors), **facts}
    save_tensors(path, tensors, to_builtins(convert(header, Header, path)))


def load_weights(path: Path, kind: str) -> tuple[dict[str, Tensor], Header]:
    """Read what `save_weights` wrote, if it is of that kind."""
    tensors, found = load_tensors(path)
    header = convert({"format": 1} | found, Header, f"{path}: header")
    if header.kind != kind:
        raise ArgumentError(f"{path}: is a file of kind {header.kind!r}, expected {kind!r}.")
    if header.tensors not in (None, len(tensors)):
        raise ArgumentError(f"{path}: contains {len(tensors)} tensors where {header.tensors} were written.")
    for name, tensor in tensors.items():
        if not bool(torch.isfinite(tensor).all()):
            raise ArgumentError(f"{path}: {name} contains NaN or infinity.")
    return tensors, header


def _kind(header: Mapping[str, Any]) -> str:
    """The kind, which version 0.1 did not record."""
    return "checkpoint" if "seconds" in header else "best" if "step" in header else "model" if header else "before"


def pack(prefix: str, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The entries of a state dict under a prefix."""
    return {f"{prefix}.{name}": tensor for name, tensor in state.items()}


def unpack(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The inverse of `pack`."""
    start = prefix + "."
    return {name[len(start) :]: tensor for name, tensor in tensors.items() if name.startswith(start)}


def load_module(module: nn.Module, prefix: str, tensors: Mapping[str, Tensor], where: Any) -> None:
    """Load the state under `prefix`; an error says what does not fit."""
    try:
        module.load_state_dict(unpack(prefix, tensors))
    except RuntimeError as error:
        detail = " ".join(str(error).split())[:300]
        raise ArgumentError(f"{where}: does not fit this {prefix}: {detail}") from error


def pack_optimizer(prefix: str, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The state of an optimiser as named tensors under a prefix; settings follow from the configuration."""
    state = optimizer.state_dict()["state"]
    return {
        f"{prefix}.{number}.{name}": value if isinstance(value, Tensor) else torch.tensor(value)
        for number, entries in state.items()
        for name, value in entries.items()
        if value is not None
    }


def unpack_optimizer(prefix: str, optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor], where: Any) -> None:
    """Load what `pack_optimizer` stored; an error says what does not fit."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in unpack(prefix, tensors).items():
        number, _, name = key.partition(".")
        place = int(number) if number.isdecimal() and len(number) < 10 else len(parameters)
        if place >= len(parameters) or (value.ndim > 0 and value.shape != parameters[place].shape):
            raise ArgumentError(f"{where}: {prefix}.{key} of shape {tuple(value.shape)} fits no parameter.")
        state.setdefault(place, {})[name] = value
    names = {frozenset(entries) for entries in state.values()}
    if len(names) > 1:
        lacking = sorted(frozenset.union(*names) - frozenset.intersection(*names))
        raise ArgumentError(f"{where}: {prefix}: {', '.join(lacking)} is missing for some parameters.")
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


Optimizers = Mapping[str, torch.optim.Optimizer]


class Checkpoints:
    """Writes the state of `network` and `method` to the folder of a run and reads it back; without one, it keeps the
    best in memory."""

    def __init__(self, run: RunFolder | None, network: Network, method: Method) -> None:
        self.run, self.network, self.method = run, network, method
        self.step: int | None = None  # of the checkpoint in the folder
        self._damaged = False  # the checkpoint in the folder, if it is not worth keeping as the previous one
        self._best: dict[str, Tensor] = {}

    def save(self, step: int, seconds: float, optimizers: Optimizers) -> None:
        """A checkpoint after `step` steps."""
        if self.run is None:
            return
        tensors = self._tensors()
        for name, optimizer in optimizers.items():
            tensors |= pack_optimizer(name, optimizer)
        if not self._damaged:
            self.run.keep_previous()
        save_weights(self.run.checkpoint, tensors, "checkpoint", step=step, seconds=seconds)
        self.step, self._damaged = step, False

    def resume(self, total: int, optimizers: Optimizers) -> tuple[int, float]:
        """Load the last complete checkpoint; return its steps and seconds, or zeros if there is none yet."""
        files = [file for file in (self.run.checkpoint, self.run.previous) if file.exists()] if self.run else []
        for number, file in enumerate(files, 1):
            try:
                return self._restore(file, total, optimizers)
            except ArgumentError as error:
                if number == len(files):
                    raise
                self._damaged = True
                warnings.warn(f"{error} The previous checkpoint is used instead.", stacklevel=2)
        return 0, 0.0

    def _restore(self, file: Path, total: int, optimizers: Optimizers) -> tuple[int, float]:
        tensors, header = load_weights(file, "checkpoint")
        if header.step is None or header.step > total:
            raise ArgumentError(f"{file}: header: step: got {header.step}; the run has {total} steps.")
        self._load(tensors, file)
        for name, optimizer in optimizers.items():
            unpack_optimizer(name, optimizer, tensors, file)
        self.step = header.step
        return header.step, header.seconds

    def keep_start(self) -> None:
        """Keep the network before adaptation, for the figures of the folder, if there is one."""
        if self.run:
            save_weights(self.run.before, pack("network", self.network.state_dict()), "before")

    def keep_best(self, step: int) -> None:
        if self.run:
            save_weights(self.run.best, self._tensors(), "best", step=step)
        else:
            self._best = {name: tensor.detach().clone() for name, tensor in self._tensors().items()}

    def take_best(self) -> None:
        self._load(load_weights(self.run.best, "best")[0] if self.run else self._best, "best")

    def take_network(self, file: Path, kind: str) -> None:
        """Load the weights of another run."""
        load_module(self.network, "network", load_weights(file, kind)[0], file)

    def _tensors(self) -> dict[str, Tensor]:
        return pack("network", self.network.state_dict()) | pack("method", self.method.state_dict())

    def _load(self, tensors: dict[str, Tensor], file: Path | str) -> None:
        load_module(self.network, "network", tensors, file)
        load_module(self.method, "method", tensors, file)
