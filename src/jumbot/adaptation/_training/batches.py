"""The minibatches of every step, loaded ahead: by a thread, or from image files by processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from jumbot._settings.training import Training
from jumbot.adaptation._training.parts import TrainingData
from jumbot.data._domain import Samples
from jumbot.data._readers import Submit, Wait, count_workers, readers
from jumbot.methods.base import Batch, Method
from jumbot.minibatch._sampling import ShuffledSampler, StratifiedSampler

#: a pair of minibatches, and its target rows, by which the records find labels
Loaded = tuple[Batch, np.ndarray]


@dataclass(frozen=True)
class Part:
    """Rows of "source", "target" or "labelled" samples, and the seed of their augmentation."""

    samples: str
    rows: np.ndarray
    key: tuple[int, int, int]


class Batches:
    """k pairs of minibatches per step; number i over all steps and processes depends on (seed, i) alone."""

    def __init__(
        self,
        data: TrainingData,
        method: Method,
        training: Training,
        source_steps: int,
        total: int,
        accelerator: Any,
    ) -> None:
        source, target, labelled = data.source, data.target, data.labelled
        self.source, self.target, self.labels = source, target, data.task.labels(source)
        self.seed, self.k, self.size = training.seed, training.k, training.batch_size
        self.workers = training.workers
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
        self.labelled, self.labelled_labels = labelled, None if labelled is None else data.task.labels(labelled)
        if labelled is not None:
            every = np.zeros(len(labelled), np.int64) if labelled.labels is None else labelled.labels
            # at least two rows, for layers that compute statistics of a minibatch
            self.labelled_sampler = StratifiedSampler(every, max(2, min(training.batch_size, len(labelled))), self.seed)
        self.target_sampler = ShuffledSampler(len(target), training.batch_size, training.seed)

    def progress(self, step: int) -> float:
        """From 0 to 1 over the adaptation."""
        return max(0, step - self.source_steps) / max(1, self.total - self.source_steps)

    def parts(self, step: int) -> list[dict[str, Part]]:
        """The rows to read for the pairs of a step; no target rows while training uses only the source."""
        out: list[dict[str, Part]] = []
        for j in range(self.k):
            number = (step * self.k + j) * self.world + self.rank
            parts = {"source": Part("source", self.sampler.batch(number), (self.seed, 3, number))}
            if step >= self.source_steps:
                rows = self.target_sampler.batch(number - self.source_steps * self.k * self.world)
                parts["target"] = Part("target", rows, (self.seed, 4, number))
                if count := self.extra_samples(self.size, self.progress(step)):  # in separate passes
                    rows = ShuffledSampler(len(self.source), count, self.seed, stream=5).batch(number)
                    parts["extra"] = Part("source", rows, (self.seed, 7, number))
            if self.labelled is not None:
                parts["labelled"] = Part("labelled", self.labelled_sampler.batch(number), (self.seed, 9, number))
            out.append(parts)
        return out

    def load(self, step: int) -> list[Loaded]:
        """The pairs of a step, read by this process."""
        pairs = self.parts(step)
        return [self._pair(step, parts, {name: self._read(part) for name, part in parts.items()}) for parts in pairs]

    @property
    def samples(self) -> dict[str, Samples]:
        domains = {"source": self.source, "target": self.target, "labelled": self.labelled}
        return {name: domain.samples for name, domain in domains.items() if domain is not None}

    def _read(self, part: Part) -> torch.Tensor:
        return self.samples[part.samples].batch(part.rows, np.random.default_rng(part.key))

    def _pair(self, step: int, parts: dict[str, Part], read: dict[str, torch.Tensor]) -> Loaded:
        """One pair of minibatches with its labels, on the device of the network."""
        x = {name: tensor.to(self.device, memory_format=self.layout) for name, tensor in read.items()}
        rows, labels, origins = parts["source"].rows, self.labels, self.source.origins
        target_rows = parts["target"].rows if "target" in parts else np.empty(0, np.int64)
        extra = (x["extra"], self._there(labels[parts["extra"].rows])) if "extra" in parts else None
        labelled = None
        if "labelled" in parts and self.labelled_labels is not None:
            labelled = x["labelled"], self._there(self.labelled_labels[parts["labelled"].rows])
        batch = Batch(
            x["source"],
            self._there(labels[rows]),
            x.get("target", x["source"][:0]),
            self.progress(step),
            step - self.source_steps,
            target_index=self._there(target_rows),
            extra=extra,
            origin=None if origins is None else self._there(origins[rows]),
            labelled=labelled,
        )
        return batch, target_rows

    def _there(self, array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(array).to(self.device)

    @contextmanager
    def ahead(self) -> Iterator[Callable[[int], list[Loaded]]]:
        """`load`, but images of the next steps are read during this one."""
        if len(self.source.shape) == 1:
            yield self.load
            return
        images = (self.total * 2 - self.source_steps) * self.k * self.size
        workers = count_workers(self.workers, self.samples, images)
        with self._loader(workers) as load, ThreadPoolExecutor(1) as thread:
            waiting: dict[int, Future[list[Loaded]]] = {}

            def get(step: int) -> list[Loaded]:
                current = waiting.pop(step, None) or thread.submit(load, step)
                if step + 1 < self.total:
                    waiting[step + 1] = thread.submit(load, step + 1)
                return current.result()

            yield get

    @contextmanager
    def _loader(self, workers: int) -> Iterator[Callable[[int], list[Loaded]]]:
        """`load` by that many processes."""
        if workers == 0:
            yield self.load
            return
        with readers(self.samples, workers) as submit:
            asked: dict[int, list[dict[str, Wait]]] = {}

            def load(step: int) -> list[Loaded]:
                begin = not asked
                for later in range(step, min(step + 2 + workers, self.total)):
                    if later not in asked and not (begin and later == step):
                        asked[later] = [_submitted(parts, submit) for parts in self.parts(later)]
                if step not in asked:  # read here, while the processes start
                    return self.load(step)
                read = [{name: wait() for name, wait in waits.items()} for waits in asked.pop(step)]
                return [self._pair(step, *both) for both in zip(self.parts(step), read, strict=True)]

            yield load


def _submitted(parts: dict[str, Part], submit: Submit) -> dict[str, Wait]:
    return {name: submit(part.samples, part.rows, part.key) for name, part in parts.items()}
