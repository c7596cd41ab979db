"""How a run is judged: which part of the source is held out, and which classifier is returned."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from torch import Tensor

from jumbot.adaptation._config import PARTS, RunConfig, make_config, smoother
from jumbot.adaptation._evaluation.accuracy import (
    LEAST,
    Calibration,
    EstimatedAccuracy,
    calibrate,
    estimate_accuracy,
    some_of,
    target_shares,
    unknown,
)
from jumbot.adaptation._evaluation.decision import LEAST_STEPS, Decision, Harm, decide, kept, weigh_witnesses
from jumbot.adaptation._evaluation.diagnosis import UNEXPLAINED, one_class
from jumbot.adaptation._evaluation.monitor import outputs
from jumbot.adaptation._evaluation.sets import MOST_UNKNOWN, Guarantee, learn_guarantee
from jumbot.adaptation._evaluation.votes import estimated_shares
from jumbot.adaptation._training.parts import TrainingData
from jumbot.adaptation._training.witnesses import (
    OutOfTimeError,
    Witnesses,
    held_out_witnesses,
    train_network,
    train_witnesses,
)
from jumbot.data._domain import Domain
from jumbot.data._inputs import kind_of
from jumbot.methods import METHODS, SOURCE_ONLY, options_class
from jumbot.methods.network import Network

if TYPE_CHECKING:
    from jumbot.adaptation._domains import Domains
    from jumbot.adaptation._model import Model

ADAPTED = "jumbot"
PAPER = ("digits", "office-home", "office-home-partial", "visda")
"""Recipes that, if named, train on all of the source, as the paper does."""
NO_ESTIMATE = (
    "whether to adapt numbers cannot be determined without labels, because shifted inputs and a target whose numbers "
    "differ look the same; pass method='jumbot' if you know that the inputs have shifted"
)
NO_TIME = "the time budget left no time to estimate the accuracy from a held-out part of the source"
MOST_STRANGE = 0.5  # unexplained share of a target above which no accuracy is estimated
USUAL = 0.7
"""If nearly one class is predicted for the whole target, its share in the source from which an accuracy is estimated:
the accuracy lies between about that share and 1, and an interval wider than 50 points is useless.
"""
HELD_OUT = 0.1  # share of the source held out from a network that is trained once
_OF_FOLDS = 0.8  # of the time for judging: the rest is for the network of the whole source
_CHEAP = 3000  # steps up to which a network of rows or signals is trained again without a part of the source
Again = Callable[[str], RunConfig]
How = Literal["folds", "held-out", "few", "not"]


@dataclass(frozen=True)
class Judged:
    """What is known about a run before its last network is trained."""

    automatic: bool
    """Whether no method was named, so that the better of source-only and JUMBOT is returned."""
    witnesses: Witnesses | None = None
    """Outputs of networks that were trained without a part of the source."""
    decision: Decision | None = None
    why_not: str = ""
    """Why no accuracy is estimated."""


def names_a_method(method: str | None, recipe: str | None, config: Any, options: Mapping[str, Any]) -> bool:
    """Whether the call selects a method: by its name, a recipe, a file of settings, or an option of JUMBOT.

    >>> names_a_method(None, None, None, {"steps": 100}), names_a_method(None, None, None, {"tau": 1.0})
    (False, True)
    """
    own = _own(ADAPTED)
    return not (method is None and recipe is None and config is None) or not own.isdisjoint(options)


def how_judged(
    source: Domain, config: RunConfig, recipe: str | None, judge: bool, own: bool = False
) -> tuple[How, str]:
    """ "folds" for rows and signals, whose networks are trained in seconds, "held-out" for others; or why neither.

    The user's `own` backbone cannot be created again for a fold.

    "few": nothing can be held out, because no class has enough samples, or because a network that is trained once
    predicts numbers; then source-only is trained, unless a method was named.
    """
    if not judge:
        return "not", "this run trains on all of the source, so accuracy was not estimated"
    numbers = source.values is not None
    if config.training.validation and not numbers:
        return "held-out", ""
    if recipe in PAPER:
        return "not", f"the recipe {recipe} trains on all of the source, as the paper does"
    quick = kind_of(source) in ("features", "signal") or config.network.freeze
    steps = sum(config.training.lengths(len(source))[1:])
    if quick and not own and steps <= _CHEAP:
        return "folds", ""
    if numbers:
        return (
            "few",
            "numbers are evaluated without labels only for built-in networks with few steps on rows or signals",
        )
    most = int(np.unique(source.labels, return_counts=True)[1].max()) if source.labels is not None else len(source)
    if config.training.select != "source_validation" and round(HELD_OUT * most) == 0:
        return "few", f"the largest class of the source has {most} samples, too few to hold out one in ten"
    return "held-out", ""


def with_held_out(config: RunConfig) -> RunConfig:
    """`config` with a part of the source that training does not see."""
    if config.training.validation:
        return config
    return replace(config, training=replace(config.training, validation=HELD_OUT))


def judge_before(
    pair: TrainingData,
    config: RunConfig,
    again: Again,
    *,
    automatic: bool,
    baseline: bool = True,
    until: float = math.inf,
    why_not: str = "",
    given: Collection[str] = (),
) -> tuple[Judged, RunConfig]:
    """Train on folds, compare, and decide; return the configuration of the method to train on the whole source.

    For numbers, JUMBOT must be named: on the bikes of another year, the reference models were closer to JUMBOT's
    numbers, but source-only's were better.

    `again(method)` makes the configuration of another method; `baseline` compares a named one with source-only. Options
    that the user has `given` are kept. If it cannot be judged, because of `why_not`, too few samples, or `until`,
    source-only is trained, unless a method was named.
    """
    few = min(len(pair.source), len(pair.target))
    if few < LEAST:
        why_not = why_not or f"{few} samples are too few; at least {LEAST} of each domain are needed"
    try:
        if not why_not:
            return _judge(pair, config, again, automatic, baseline, until, given)
    except OutOfTimeError:
        why_not = NO_TIME
    decision = kept(config.method, None)
    if automatic:
        decision = Decision(SOURCE_ONLY, f"{SOURCE_ONLY} was chosen: {why_not}.")
    return Judged(automatic, None, decision, why_not), again(SOURCE_ONLY) if automatic else config


def _judge(
    pair: TrainingData,
    config: RunConfig,
    again: Again,
    automatic: bool,
    baseline: bool,
    until: float,
    given: Collection[str],
) -> tuple[Judged, RunConfig]:
    """Judge by folds of the source."""
    if pair.source.labels is None and (automatic or config.method == SOURCE_ONLY):
        witnesses, config = _witnesses_of_numbers(pair, again(SOURCE_ONLY) if automatic else config, until, given)
        undecided = Decision(SOURCE_ONLY, f"{SOURCE_ONLY} was chosen: {NO_ESTIMATE}.")
        return Judged(automatic, witnesses, undecided if automatic else kept(SOURCE_ONLY, None)), config
    # numbers are not judged: the reference models, which would be the judges, are wrong if inputs moved
    compared = config.method != SOURCE_ONLY and (automatic or baseline) and pair.source.labels is not None
    configs = [again(SOURCE_ONLY), config] if compared else [config]
    now = time.monotonic()
    end = now + _OF_FOLDS * (until - now) if automatic else until
    witnesses = train_witnesses(pair, configs, end)
    harm = None
    if compared:
        harm = weigh_witnesses(witnesses.by_method[config.method], witnesses.by_method[SOURCE_ONLY])
    if not automatic or harm is None:
        return Judged(automatic, witnesses, _named(config, pair.source, harm)), config
    decision = decide(harm, config.method)
    if decision.method == config.method:
        decision = decide(_weigh_whole(pair, config, witnesses, until), config.method)
    return Judged(automatic, witnesses, decision), config if decision.method == config.method else again(SOURCE_ONLY)


def _weigh_whole(pair: TrainingData, config: RunConfig, witnesses: Witnesses, until: float) -> Harm:
    """The same for the network that is trained on the whole source and returned, which may differ from those of the
    folds.
    """
    network = train_network(pair, config, until)
    _, logits = outputs(network, pair.target.subset(witnesses.index).unlabelled())
    whole = replace(witnesses.by_method[config.method], target=(logits.double().numpy(),))
    return weigh_witnesses(whole, witnesses.by_method[SOURCE_ONLY])


def _witnesses_of_numbers(
    pair: TrainingData, config: RunConfig, until: float, given: Collection[str]
) -> tuple[Witnesses, RunConfig]:
    """Source-only for numbers, with the network that predicts held-out ones better: the recipe's, or a smoother one."""
    found: list[tuple[Witnesses, RunConfig]] = []
    every = [one for one in (config, smoother(config, given)) if one is not None]
    for number, one in enumerate(every):
        now = time.monotonic()
        end = now + max(until - now, 0) / (len(every) - number)
        try:
            found.append((train_witnesses(pair, [one], end), one))
        except OutOfTimeError:
            if not found:
                raise

    def squares(witnesses: Witnesses) -> float:
        witness = witnesses.by_method[SOURCE_ONLY]
        return float(np.mean((witness.held - witness.labels) ** 2))

    return min(found, key=lambda each: squares(each[0]))


def judge_after(
    network: Network, earlier: Network | None, domains: Domains, config: RunConfig, automatic: bool
) -> Judged:
    """Compare a network with its start on the source alone by the part of the source that neither saw."""
    held = domains.watch.validation
    assert held is not None
    networks = {config.method: network} | ({} if earlier is None else {SOURCE_ONLY: earlier})
    witnesses = held_out_witnesses(domains.training_data, held, networks, config)
    if config.method == SOURCE_ONLY or earlier is None:
        decision = kept(config.method, None)
        if automatic:
            why = "was trained: there is no source-only classifier to compare it with"
            decision = Decision(config.method, f"{config.method} {why}.")
        return Judged(automatic, witnesses, decision)
    harm = weigh_witnesses(witnesses.by_method[config.method], witnesses.by_method[SOURCE_ONLY])
    decision = decide(harm, config.method) if automatic else _named(config, domains.source, harm)
    return Judged(automatic, witnesses, decision)


def _named(config: RunConfig, source: Domain, harm: Harm | None) -> Decision:
    """The decision for a named method, without a comparison if it was hardly trained."""
    trained = sum(config.training.lengths(len(source))[1:]) >= LEAST_STEPS
    return kept(config.method, harm if trained else None)


def maker(source: Domain, recipe: str | None, options: Mapping[str, Any]) -> Again:
    """`again` of `judge_before`: the same recipe and options, without those of other methods; made once each."""
    return functools.cache(lambda method: make_config(source, method, recipe, own_options(method, options)))


def own_options(method: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """`options` without those that only other methods have.

    >>> own_options("source-only", {"tau": 0.5, "critic_rate": 0.1, "steps": 9})
    {'steps': 9}
    """
    mine = _own(method) | {field.name for part in PARTS.values() for field in fields(part)}
    others = set().union(*map(_own, METHODS)) - mine
    return {name: value for name, value in options.items() if name not in others}


def _own(method: str) -> set[str]:
    return {field.name for field in fields(options_class(method))}


def estimate_of(
    witnesses: Witnesses, method: str, logits: Tensor, predicted: Tensor, near: np.ndarray | None = None
) -> EstimatedAccuracy:
    """Estimate the accuracy of a network with these logits and predictions of the whole target, by the witness of its
    method.

    `near` is the mass that target samples receive, None if unknown.
    """
    witness = witnesses.by_method[method]
    own, classes = logits[witnesses.index].double().numpy(), predicted[witnesses.index].numpy()
    found = estimate_accuracy(witness.votes(own, classes), len(logits), len(witness.labels), skill=witness.skill)
    return withheld(found, predicted.numpy(), witness.shares, near)


def withheld(
    found: EstimatedAccuracy, predicted: np.ndarray, shares: np.ndarray, near: np.ndarray | None = None
) -> EstimatedAccuracy:
    """The estimate, or none if votes learned on the source are meaningless for this target."""
    why = _unlike_the_source(predicted, shares, near)
    return unknown(why, found.votes) if why and found.value is not None else found


def calibrated(
    judged: Judged, method: str, logits: Tensor, planned: Any, near: Any = None
) -> tuple[Calibration, EstimatedAccuracy]:
    """Calibrate a network with these logits of the target: temperature, class proportions, and the estimate of its
    accuracy.

    `planned` are the class proportions that the plan gives the target, and `near` the mass that its samples receive,
    None if unknown.
    """
    if judged.witnesses is None or method not in judged.witnesses.by_method:
        return Calibration(), unknown(judged.why_not or "there is no held-out part of the source")
    witness = judged.witnesses.by_method[method]
    found = calibrate(logits, witness, planned, None)
    accuracy = estimate_of(judged.witnesses, method, logits, found.scores(logits).argmax(-1), near)
    if accuracy.value is None:
        return found, accuracy
    return calibrate(logits, witness, planned, accuracy.value), accuracy


def _unlike_the_source(predicted: np.ndarray, shares: np.ndarray, near: np.ndarray | None) -> str:
    """Why votes learned on the source are meaningless for this target; empty if they are not.

    Far from the source, classifiers agree with each other and are confident, although none has learned anything there.
    """
    if near is not None and (strange := float((near < UNEXPLAINED).mean())) > MOST_STRANGE:
        return f"{100 * strange:.0f} % of the target is not explained by anything in the source"
    counts = np.bincount(predicted, minlength=len(shares))
    return "" if shares[counts.argmax()] >= USUAL else one_class(counts / len(predicted), shares)


def guaranteed(
    judged: Judged, model: Model, logits: Tensor, planned: Any, near: Any, accuracy: EstimatedAccuracy | None
) -> Guarantee | None:
    """What the model keeps of the held-out source for prediction sets; None if nothing was held out.

    `near` is the mass that target samples receive, None if unknown.
    """
    if judged.witnesses is None or (witness := judged.witnesses.by_method.get(str(model.method["name"]))) is None:
        return None
    strange = UNEXPLAINED if near is None else min(UNEXPLAINED, float(np.quantile(near, MOST_UNKNOWN)))
    if witness.labels.ndim > 1:
        return learn_guarantee(witness, None, None, None, strange)
    logits = some_of(logits)
    estimated = estimated_shares(witness.probabilities(logits.double().numpy()), witness.shares)
    shares = target_shares(estimated, np.asarray(planned), witness.shares)
    has_estimate = accuracy is not None and accuracy.value is not None
    probabilities = model.probabilities(logits).double().numpy() if has_estimate else None
    return learn_guarantee(witness, Calibration(model.temperature, model.offset), shares, probabilities, strange)
