"""The minibatches of every step, loaded one step ahead."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from jumbot.adaptation.settings import Training
from jumbot.adaptation.task import Task
from jumbot.adaptation.training.stratified import ShuffledSampler, StratifiedSampler
from jumbot.data.domain import Domain
from jumbot.methods.base import Batch, Method

#: a pair of minibatches, and the rows of the target in it, by which the records find labels
Loaded = tuple[Batch, np.ndarray]


class Batches:
    """k pairs of minibatches per step; number i over all steps and processes depends on (seed, i) alone."""

    def __init__(
        self, source: Domain, target: Domain, task: Task, method: Method, training: Training, source_steps: int,
        total: int, accelerator: Any, labelled: Domain | None = None,
    ) -> None:  # fmt: skip
        self.source, self.target, self.labels = source, target, task.labels(source)
        self.seed, self.k, self.size = training.seed, training.k, training.batch_size
        self.extra_samples = method.extra_samples
        self.source_steps, self.total = source_steps, total
        self.device, self.rank, self.world = accelerator.device, accelerator.process_index, accelerator.num_processes
        # convolutions on the CPU and on recent GPUs are faster with the channels last
        images = len(source.shape) >= 3 and getattr(source.samples, "kind", "image") == "image"
        self.layout = torch.channels_last if images else torch.contiguous_format
        self.sampler: StratifiedSampler | ShuffledSampler = (
            StratifiedSampler(source.strata, training.batch_size, training.seed)
            if source.strata is not None and (training.sampler == "stratified" or source.labels is None)
            else ShuffledSampler(len(source), training.batch_size, training.seed, stream=8)
        )
        self.labelled, self.labelled_labels = labelled, None if labelled is None else task.labels(labelled)
        if labelled is not None:
            every = np.zeros(len(labelled), np.int64) if labelled.labels is None else labelled.labels
            # two rows at least, for layers that take statistics of a minibatch
            self.labelled_sampler = StratifiedSampler(every, max(2, min(training.batch_size, len(labelled))), self.seed)
        self.target_sampler = ShuffledSampler(len(target), training.batch_size, training.seed)

    def progress(self, step: int) -> float:
        """From 0 to 1 over the adaptation."""
        return max(0, step - self.source_steps) / max(1, self.total - self.source_steps)

    def load(self, step: int) -> list[Loaded]:
        """The pairs of a step; without target rows while only the source is trained on."""
        out: list[Loaded] = []
        origins = self.source.origins
        for j in range(self.k):
            number = (step * self.k + j) * self.world + self.rank
            rows = self.sampler.batch(number)
            x = self.source.samples.batch(rows, np.random.default_rng((self.seed, 3, number)))
            if step < self.source_steps:
                target_rows, target = np.empty(0, np.int64), x[:0]
            else:
                target_rows = self.target_sampler.batch(number - self.source_steps * self.k * self.world)
                target = self.target.samples.batch(target_rows, np.random.default_rng((self.seed, 4, number)))
            batch = Batch(
                x.to(self.device, memory_format=self.layout), torch.from_numpy(self.labels[rows]).to(self.device),
                target.to(self.device, memory_format=self.layout), self.progress(step), step - self.source_steps,
                target_index=torch.from_numpy(target_rows).to(self.device), extra=self._extra(step, number),
                origin=None if origins is None else torch.from_numpy(origins[rows]).to(self.device),
                labelled=self._labelled(number),
            )  # fmt: skip
            out.append((batch, target_rows))
        return out

    def _labelled(self, number: int) -> tuple[torch.Tensor, torch.Tensor] | None:
        """Target samples whose labels are known, alike of each class, and these labels."""
        if self.labelled is None or self.labelled_labels is None:
            return None
        rows = self.labelled_sampler.batch(number)
        x = self.labelled.samples.batch(rows, np.random.default_rng((self.seed, 9, number)))
        labels = torch.from_numpy(self.labelled_labels[rows])
        return x.to(self.device, memory_format=self.layout), labels.to(self.device)

    def _extra(self, step: int, number: int) -> tuple[torch.Tensor, torch.Tensor] | None:
        """The further source samples that the method asks for, drawn in passes of their own."""
        count = self.extra_samples(self.size, self.progress(step)) if step >= self.source_steps else 0
        if count == 0:
            return None
        rows = ShuffledSampler(len(self.source), count, self.seed, stream=5).batch(number)
        x = self.source.samples.batch(rows, np.random.default_rng((self.seed, 7, number)))
        return x.to(self.device, memory_format=self.layout), torch.from_numpy(self.labels[rows]).to(self.device)

    @contextmanager
    def ahead(self) -> Iterator[Callable[[int], list[Loaded]]]:
        """`load`, but images of the next step are decoded while this one is computed."""
        if len(self.source.shape) == 1:
            yield self.load
            return
        with ThreadPoolExecutor(1) as pool:
            waiting: dict[int, Future[list[Loaded]]] = {}

            def get(step: int) -> list[Loaded]:
                current = waiting.pop(step, None) or pool.submit(self.load, step)
                if step + 1 < self.total:
                    waiting[step + 1] = pool.submit(self.load, step + 1)
                return current.result()

            yield get
