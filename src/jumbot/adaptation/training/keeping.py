"""The weights that a run keeps: the last checkpoint and the one before it, and those of the best step."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from jumbot.adaptation.runs.folder import RunFolder
from jumbot.adaptation.training.checkpoint import (
    load_module,
    load_weights,
    pack,
    pack_optimizer,
    save_weights,
    unpack_optimizer,
)
from jumbot.errors import ArgumentError
from jumbot.methods.base import Method
from jumbot.methods.network import Network

Optimizers = Mapping[str, torch.optim.Optimizer]


class Keeper:
    """Writes the state of `network` and `method` to the folder of a run and reads it back; without one, it keeps the
    best in memory."""

    def __init__(self, run: RunFolder | None, network: Network, method: Method) -> None:
        self.run, self.network, self.method = run, network, method
        self.step: int | None = None  # of the checkpoint in the folder
        self._broken = False  # the checkpoint in the folder, which is not worth keeping as the previous one
        self._best: dict[str, Tensor] = {}

    def save(self, step: int, seconds: float, optimizers: Optimizers) -> None:
        """A checkpoint after `step` steps."""
        if self.run is None:
            return
        tensors = self._tensors()
        for name, optimizer in optimizers.items():
            tensors |= pack_optimizer(name, optimizer)
        if not self._broken:
            self.run.keep_previous()
        save_weights(self.run.checkpoint, tensors, "checkpoint", step=step, seconds=seconds)
        self.step, self._broken = step, False

    def resume(self, total: int, optimizers: Optimizers) -> tuple[int, float]:
        """Steps and seconds of the last checkpoint that is whole, which is loaded; zeros where there is none yet."""
        files = [file for file in (self.run.checkpoint, self.run.previous) if file.exists()] if self.run else []
        for number, file in enumerate(files, 1):
            try:
                return self._restore(file, total, optimizers)
            except ArgumentError as error:
                if number == len(files):
                    raise
                self._broken = True
                warnings.warn(f"{error} It is passed over: the checkpoint before it is taken.", stacklevel=2)
        return 0, 0.0

    def _restore(self, file: Path, total: int, optimizers: Optimizers) -> tuple[int, float]:
        tensors, header = load_weights(file, "checkpoint")
        if header.step is None or header.step > total:
            raise ArgumentError(f"{file}: header: step: {header.step} came in; the run has {total} steps.")
        self._load(tensors, file)
        for name, optimizer in optimizers.items():
            unpack_optimizer(name, optimizer, tensors, file)
        self.step = header.step
        return header.step, header.seconds

    def keep_best(self, step: int) -> None:
        if self.run:
            save_weights(self.run.best, self._tensors(), "best", step=step)
        else:
            self._best = {name: tensor.detach().clone() for name, tensor in self._tensors().items()}

    def take_best(self) -> None:
        self._load(load_weights(self.run.best, "best")[0] if self.run else self._best, "best")

    def take_network(self, file: Path, kind: str) -> None:
        """The weights that another run has left."""
        load_module(self.network, "network", load_weights(file, kind)[0], file)

    def _tensors(self) -> dict[str, Tensor]:
        return pack("network", self.network.state_dict()) | pack("method", self.method.state_dict())

    def _load(self, tensors: dict[str, Tensor], file: Path | str) -> None:
        load_module(self.network, "network", tensors, file)
        load_module(self.method, "method", tensors, file)
