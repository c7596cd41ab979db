"""The training loop: two samplers, one method, one schedule; the source alone first, then both domains."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import nn

from jumbot._settings.training import Training
from jumbot.adaptation._evaluation.modularity import trust_in_sources
from jumbot.adaptation._evaluation.monitor import Monitor, Watch
from jumbot.adaptation._evaluation.selection import best
from jumbot.adaptation._runs.folder import RunFolder
from jumbot.adaptation._runs.provenance import Start
from jumbot.adaptation._training.accelerator import begin_trackers, devices, flat, make_accelerator, seed_step
from jumbot.adaptation._training.bar import TimeUpError, stops, time_is_up, training_bar
from jumbot.adaptation._training.batch_norms import check_has_batch_norms, estimate_batch_norms
from jumbot.adaptation._training.batches import Batches, Loaded
from jumbot.adaptation._training.checkpoint import Checkpoints
from jumbot.adaptation._training.parts import TrainingData, make_optimizers, rate_factor
from jumbot.data._scaling import outsize
from jumbot.errors import ArgumentError, NotFiniteError, Stopped
from jumbot.loss import mass_between
from jumbot.methods._joint_transport import TransportMethod
from jumbot.methods.base import Batch, Method, Terms, source_term
from jumbot.methods.network import Network

Record = dict[str, Any]


@dataclass
class Trained:
    """The result of training: the network of the chosen step, and the records of every step and evaluation."""

    network: Network
    method: Method
    history: list[Record] = field(default_factory=list)
    selected_step: int = 0
    seconds: float = 0.0
    planned: int | None = None
    """The planned number of steps, if a time budget ended training earlier."""


class Objective(nn.Module):
    """Network and method as one module with one forward pass per step, as data parallelism requires.

    `weight` is that of the source's own term.
    """

    def __init__(self, network: Network, method: Method, weight: float = 1.0) -> None:
        super().__init__()
        self.network, self.method, self.weight = network, method, weight

    def forward(self, phase: str, batch: Batch) -> Terms:
        if phase == "source":
            logits = self.network(batch.source)[1]
            terms = Terms({"source": source_term(logits, batch.labels, label_loss=self.method.label_loss)})
        else:
            terms = self.method.terms(self.network, batch)
        if self.weight != 1:
            terms = replace(terms, losses={**terms.losses, "source": self.weight * terms.losses["source"]})
        if batch.labelled is None or "labelled" in terms.losses:
            return terms
        x, labels = batch.labelled
        own = source_term(self.network(x)[1], labels, label_loss=self.method.label_loss)
        return replace(terms, losses={**terms.losses, "labelled": own})


class Trainer:
    """Trains `network` in place with `method` on a labelled source and a target, whose labels it never sees.

    `watch` may contain target labels, which are only used in the records.  Minibatch i depends on (seed, i), and the
    random numbers of step i on (seed, i), so that a resumed run ends with the weights of an uninterrupted one.  After
    `until`, a time of `time.monotonic`, no further step is begun.
    """

    def __init__(
        self,
        data: TrainingData,
        network: Network,
        method: Method,
        training: Training,
        *,
        watch: Watch | None = None,
        run: RunFolder | None = None,
        show: bool = False,
        until: float = math.inf,
    ) -> None:
        data = replace(data, target=data.target.unlabelled())
        source, labelled = data.source, data.labelled
        if source.labels is None and source.values is None:
            raise ArgumentError(f"source: {source.name} has no labels; the source must be labelled.")
        if training.batch_norm == "target":
            check_has_batch_norms(network)
        self.training, self.run, self.show, self.until = training, run, show, until
        self.watch = watch or Watch()
        self.network, self.method = network, method
        self.accelerator = make_accelerator(training, run)
        # the plan of one process is the joint plan of all
        self.global_plan = training.global_plan and self.accelerator.num_processes > 1
        if isinstance(method, TransportMethod):
            method.global_plan = self.global_plan
        self.epoch, self.source_steps, steps = training.lengths(len(source) // self.accelerator.num_processes)
        self.total = self.source_steps + steps
        self.refresh_every = method.refresh_interval(steps)
        self.batches = Batches(data, method, training, self.source_steps, self.total, self.accelerator)
        if source.origins is not None:
            method.use_sources(len(source.sources), lambda: trust_in_sources(source, training.seed))
        # both terms are means: no source sample has more weight than a labelled target sample
        weight = 1.0 if labelled is None else min(1.0, len(source) / len(labelled))
        self.objective = Objective(network, method, weight).to(self.accelerator.device)
        network.to(memory_format=self.batches.layout)  # type: ignore[call-overload]
        self.wrapped = self.accelerator.prepare_model(self.objective)
        self.monitor = Monitor(
            network, method, source, data.target, data.task, training, self.watch, self.accelerator.device
        )
        self.step, self.before = 0, 0.0
        self.planned: int | None = None  # steps, where a budget of time ended it before
        self.checkpoints = Checkpoints(run, network, method)
        self.history: list[Record] = []
        self.optimizers = self._fresh_optimizers()

    def fit(self, resume: bool = False, begin: Start | None = None) -> Trained:
        """Run all steps that neither a checkpoint nor the run to `begin` with has done.

        The network then has the weights of the chosen step.
        """
        with torch.random.fork_rng(devices=devices(self.accelerator.device)):
            if resume and self.run is not None:
                self._resume(self.run)
            begin_trackers(self.accelerator, self.training, self.run)
            start = self.saved = time.monotonic()
            if begin is not None and self.step == 0:
                self._take_over(begin)
            with self.batches.ahead() as batches, self._bar() as bar, stops() as asked:
                while self.step < self.total:
                    if self.step and time.monotonic() >= self.until:
                        self._end_early(start)
                        break
                    self._one(batches(self.step), bar, start)
                    self._after(start, bar)
                    if (signal := asked()) is not None:
                        self._save()
                        raise Stopped(f"{self.step} of {self.total} steps are done", signal)
                    if self.step < self.total and time_is_up():
                        self._save()
                        raise TimeUpError(f"the time budget ended after {self.step} of {self.total} steps")
        self._save()
        for tracker in self.accelerator.trackers:
            tracker.finish()
        seconds = self.before + time.monotonic() - start
        return Trained(self.network, self.method, self.history, self._select(), seconds, self.planned)

    def _end_early(self, start: float) -> None:
        """The time is up: end the run with what has been learned so far."""
        if self.step <= self.source_steps:
            self._keep_start()
        self.planned, self.total = self.total, self.step
        seconds = self.before + time.monotonic() - start
        looks = self.training.evaluate_every != 0 and self.accelerator.is_main_process
        if looks and self.history[-1]["event"] != "evaluation":
            self._look(seconds)
        if self._settle_norms() and looks:
            self._look(seconds)

    def _keep_start(self) -> None:
        """Adaptation begins: keep the network, to compare it with that at the end."""
        if self.accelerator.is_main_process:
            self.checkpoints.keep_start()

    def _settle_norms(self) -> bool:
        """The last step is done: estimate batch norms on the target, if requested."""
        if self.training.batch_norm == "target":
            estimate_batch_norms(self.network, self.monitor.target, self.accelerator.device, self.training.seed)
        return self.training.batch_norm == "target"

    @property
    def phase(self) -> str:
        return "source" if self.step < self.source_steps else "adapt"

    def _one(self, loaded: list[Loaded], bar: Callable[[Record], None], start: float) -> None:
        """One step of the optimiser, on k pairs of minibatches."""
        training, phase = self.training, self.phase
        if self.step == self.source_steps:
            self._keep_start()
            self.optimizers = self._fresh_optimizers()
        self._set_rate()
        if phase == "adapt" and (every := self.refresh_every) and (self.step - self.source_steps) % every == 0:
            self.method.refresh(self.monitor.target_outputs())
        seed_step(training.seed, self.step, self.accelerator.process_index)
        self.objective.train()
        for optimizer in self.optimizers.values():
            optimizer.zero_grad(set_to_none=True)
        record: Record = {"event": "step", "step": self.step, "epoch": self.step // self.epoch, "phase": phase}
        sums: dict[str, float] = {}
        for number, (batch, rows) in enumerate(loaded):
            last = number == training.k - 1
            try:
                with nullcontext() if last else self.accelerator.no_sync(self.wrapped):
                    terms: Terms = self.wrapped(phase, batch)
                    self.accelerator.backward(terms.total / training.k)
            except NotFiniteError as error:
                raise self._stopped(str(error)) from error
            found = {f"terms.{name}": float(loss.detach()) for name, loss in terms.losses.items()}
            found |= self._plan_facts(terms, batch, rows)
            for name, value in found.items():
                sums[name] = sums.get(name, 0.0) + value / training.k
        record["terms"] = {name[6:]: value for name, value in sums.items() if name.startswith("terms.")}
        record["loss"] = sum(record["terms"].values())
        record |= {name: value for name, value in sums.items() if not name.startswith("terms.")}
        if not math.isfinite(record["loss"]):
            raise self._stopped(", ".join(f"{name} = {value:g}" for name, value in record["terms"].items()))
        for optimizer in self.optimizers.values():
            optimizer.step()
        self.method.end_step()
        record["seconds"] = round(self.before + time.monotonic() - start, 3)
        self._record(record)
        bar(record)
        self.step += 1

    def _plan_facts(self, terms: Terms, batch: Batch, rows: np.ndarray) -> dict[str, float]:
        """Mass of the plan, the transport value, and, for the record alone, the mass between different labels."""
        if terms.plan is None:
            return {}
        found = {"mass": float(terms.plan.sum())}
        if terms.value is not None:
            found["value"] = float(terms.value)
        if self.watch.target_labels is not None and not self.global_plan:
            labels = torch.from_numpy(self.watch.target_labels[rows]).to(terms.plan.device)
            if bool((labels >= 0).any()):
                found["wrong_mass"] = float(mass_between(terms.plan, batch.labels, labels))
        return found

    def _after(self, start: float, bar: Callable[[Record], None]) -> None:
        """Evaluate and save a checkpoint when due; `step` steps are done.

        After the last step there are two evaluations if batch norms are estimated on the target: before and after that.
        """
        every = self.training.evaluate_every
        every = max(self.epoch, 10) if every is None else every
        done = self.step
        due = bool(every) and (done % every == 0 or done in (self.source_steps, self.total))
        if due:
            self._show_look(start, bar)
        if done == self.total and self._settle_norms() and due:
            self._show_look(start, bar)
        if due:
            if self.accelerator.is_main_process and self.training.select != "last" and self._best() == done:
                self.checkpoints.keep_best(done)
            self.accelerator.wait_for_everyone()
        often = self.training.checkpoint_every
        if done < self.total and (done % often == 0 if often else time.monotonic() - self.saved > 60):
            self._save()

    def _show_look(self, start: float, bar: Callable[[Record], None]) -> None:
        """Evaluate in the main process, and show the result."""
        if self.accelerator.is_main_process:
            bar(self._look(self.before + time.monotonic() - start))

    def _look(self, seconds: float) -> Record:
        """Evaluate, and record the result."""
        done = self.step
        record = {"event": "evaluation", "step": done, "epoch": done // self.epoch}
        record["phase"] = "source" if done <= self.source_steps else "adapt"
        record |= self.monitor.evaluate(done == self.total or self.training.evaluate_samples is None)
        record["seconds"] = round(seconds, 3)
        self._record(record)
        return record

    def _take_over(self, begin: Start) -> None:
        """Load the state of another run after its steps on the source alone."""
        if self.source_steps:
            self.checkpoints.take_network(begin.run.before, "before")
        self.step = self.source_steps
        if begin.whole:
            self._keep_start()
            self.checkpoints.take_network(begin.run.checkpoint, "checkpoint")
            self.step = self.total
            if not begin.looks:  # its target is another one
                self._settle_norms()
        if not self.accelerator.is_main_process:
            return
        for record in begin.records(self.step):
            self._record(record)
        self.before = self.history[-1]["seconds"]
        if self.training.evaluate_every != 0 and self.history[-1]["event"] != "evaluation":
            self._look(self.before)

    def _select(self) -> int:
        if self.training.select == "last" or not self.accelerator.is_main_process:
            return self.total
        step = self._best()
        if step != self.total:
            self.checkpoints.take_best()
            self._settle_norms()
        return step

    def _best(self) -> int:
        """The step chosen by the selection rule, among those of the adaptation."""
        seen = [r for r in self.history if r["event"] == "evaluation" and r["phase"] == self.history[-1]["phase"]]
        return best(seen, self.training.select)

    def _save(self) -> None:
        self.saved = time.monotonic()
        if self.run is None or not self.accelerator.is_main_process or self.step == self.checkpoints.step:
            return
        if not all(bool(torch.isfinite(p).all()) for p in self.objective.parameters()):
            raise self._stopped("the weights contain NaN or infinity")
        self.checkpoints.save(self.step, self.history[-1]["seconds"] if self.history else 0.0, self.optimizers)

    def _resume(self, run: RunFolder) -> None:
        self.step, self.before = self.checkpoints.resume(self.total, self.optimizers)
        if self.accelerator.is_main_process:
            self.history = run.rewind(self.step)
        self.accelerator.wait_for_everyone()

    def _record(self, record: Record) -> None:
        if not self.accelerator.is_main_process:
            return
        self.history.append(record)
        if self.run:
            self.run.append(record)
        if self.accelerator.trackers:
            self.accelerator.log(flat(record), step=record["step"])

    def _stopped(self, why: str) -> NotFiniteError:
        kept = ""
        if self.run and self.checkpoints.step is not None:
            kept = f" The checkpoint after step {self.checkpoints.step} is kept: {self.run.checkpoint}."
        rate = f"ower learning_rate (now {self.training.learning_rate:g})"
        found = outsize(self.batches.source)
        remedy = f"L{rate}, or look at the data" if found is None else f"{found}, or l{rate}"
        return NotFiniteError(f"step {self.step} ({self.phase}) is not finite: {why.rstrip('.')}. {remedy}.{kept}")

    def _fresh_optimizers(self) -> dict[str, torch.optim.Optimizer]:
        made = make_optimizers(self.network, self.method, self.training)
        if self.accelerator.scaler is None and self.accelerator.num_processes == 1:
            return made  # the wrapper would only look for missing packages, twice per step
        return {name: self.accelerator.prepare_optimizer(one) for name, one in made.items()}

    def _set_rate(self) -> None:
        factor = rate_factor(self.training, self.step - self.source_steps, self.total - self.source_steps)
        for group in self.optimizers["optimizer"].param_groups:
            group["lr"] = self.training.learning_rate * factor * group["share"]

    @contextmanager
    def _bar(self) -> Iterator[Callable[[Record], None]]:
        if not self.accelerator.is_main_process:
            yield lambda record: None
            return
        with training_bar(self.total, self.step, self.method.name, self.show) as update:
            yield update
