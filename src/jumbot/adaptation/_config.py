"""`RunConfig`: all settings of a run, and the only place where they are decided."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from jumbot._base.options import check_word
from jumbot._settings.names import BUILT_IN, check_weights
from jumbot._settings.reading import Reading
from jumbot._settings.recipes import NUMBERS, NUMBERS_HIDDEN, NUMBERS_METHODS, RECIPES, Recipe
from jumbot._settings.training import FEWEST, Inputs, NetworkOptions, Training
from jumbot.errors import ArgumentError, suggest_option
from jumbot.methods import METHODS, SOURCE_ONLY, check_predicts_numbers, method_options, options_class
from jumbot.methods.options import DeepJDOTOptions, MethodOptions, TransportOptions

if TYPE_CHECKING:
    from jumbot._settings.reading import TaskName
    from jumbot.data._domain import Domain


CLASS_SCORES = ("entropy", "infomax", "snd")
_NUMBERS = "task='regression' predicts numbers, and"

FOR_NUMBERS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "sampler": (lambda value: value == "stratified", "there are no classes to stratify by; leave it out."),
    "select": (
        lambda value: value in CLASS_SCORES,
        "this score is for classes; use last, smoothness, source_validation or transport.",
    ),
    "partial": (lambda value: value is not None, "there are no classes to keep; leave it out."),
    "thin": (lambda value: value is not None, "there are no classes to thin out; leave it out."),
    "proportions": (lambda value: value != "equal", "there are no classes whose shares could differ; leave it out."),
    "variant": (lambda value: value == "original", "the original DeepJDOT compares probabilities; leave it out."),
}
"""Options that make no sense for numbers: when, and why."""
FOR_CLASSES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "label_loss": (lambda value: value is not None, "classes use the cross-entropy; it is for task='regression'."),
    "select": (lambda value: value == "smoothness", "this score is for numbers; see jumbot adapt --help for others."),
}
"""Options that make no sense for classes."""


def check_together(task: TaskName | None, method: str, changes: Mapping[str, Any]) -> None:
    """Refuse options that do not fit the task; None: the task depends on the data.

    >>> check_together("regression", "jumbot", {"select": "snd"})
    Traceback (most recent call last):
    jumbot.errors.ArgumentError: select: got 'snd', but task='regression' predicts numbers, and this score is ...
    """
    if task == "regression":
        check_predicts_numbers(method)
    for option, (wrong, why) in {"regression": FOR_NUMBERS, "classification": FOR_CLASSES}.get(str(task), {}).items():
        if option in changes and wrong(changes[option]):
            why = f"{_NUMBERS} {why}" if task == "regression" else why
            raise ArgumentError(f"{option}: got {changes[option]!r}, but {why}")


def sampler_of(task: TaskName | None, method: str) -> str:
    """How source minibatches are drawn, by default: numbers have no classes to stratify by."""
    return "shuffled" if task == "regression" else options_class(method).sampler


PARTS: dict[str, type[Any]] = {"training": Training, "network": NetworkOptions, "inputs": Inputs}
INSTEAD = {"steps": "epochs", "source_steps": "source_epochs"}
"""Options that replace others: both cannot be given."""
FOLLOWS: tuple[tuple[str, Callable[[Any], bool], tuple[str, Any]], ...] = (
    ("optimizer", lambda value: value == "adam", ("weight_decay", 0.0)),  # a recipe's is for another optimiser
    ("standardise", lambda value: value == "none", ("bins", 0)),  # which scale rows in any case
    ("bins", bool, ("rank", 0)),  # another first layer replaces that of a recipe
    ("rank", bool, ("bins", 0)),
)
"""What a change of one option sets another to, unless the user sets that one."""


@dataclass(frozen=True)
class RunConfig:
    """All settings of a run, wherever they came from."""

    method: str
    recipe: str
    options: MethodOptions
    training: Training
    network: NetworkOptions
    inputs: Inputs

    def parts(self) -> dict[str, Any]:
        """Fields of `Config`, the record of a run."""
        return {
            "method": {"name": self.method, **asdict(self.options)},
            "recipe": self.recipe,
            "training": self.training,
            "network_options": self.network,
            "inputs": self.inputs,
        }

    def to_json(self) -> dict[str, Any]:
        """The part that `config.json` contains."""
        return {name: part if name in ("method", "recipe") else asdict(part) for name, part in self.parts().items()}


def make_config(
    source: Domain | None, method: str, recipe: str | None, changes: Mapping[str, Any], task: TaskName | None = None
) -> RunConfig:
    """A recipe with changes, each for the part that has an option of that name.

    Without a `recipe` it is the one that fits the `source`.  A recipe may change values of a method and of its
    training for that method alone; `changes` take precedence.  The `task` is that of the source's labels.

    >>> config = make_config(None, "jumbot", "digits", {"tau": 2.0, "batch_size": 100})
    >>> config.options.tau, config.training.batch_size, config.training.epochs
    (2.0, 100, 100)
    """
    if source is not None and task is None:
        task = "classification" if source.values is None else "regression"
    check_together(task, method, changes)
    name = recipe_for(source) if recipe is None else recipe
    values, owners = _values(method, task, name, changes), _owners(method)
    parts: dict[str, dict[str, Any]] = {part: {} for part in ("options", *PARTS)}
    for option, value in values.items():
        if option not in owners:
            raise ArgumentError(f"{option}: not an option of {method} or its training; {_where(option, method)}")
        parts[owners[option]][option] = value
    for one, other in INSTEAD.items():
        if changes.get(one) is not None and changes.get(other) is not None:
            raise ArgumentError(f"{one}: got {changes[one]} together with {other}={changes[other]}; pass one.")
    made = {part: cls(**parts[part]) for part, cls in PARTS.items()}
    config = RunConfig(method, name, method_options(method, parts["options"]), **made)
    if config.network.weights is not None:
        check_weights(config.network.weights)
    if task == "regression" and config.inputs.views == "ten-crop":
        raise ArgumentError("views: 'ten-crop' averages probabilities of classes; with task='regression' use 'whole'.")
    if source is not None:
        _check_fits(source, config, changes)
        if task == "regression" and {"steps", "epochs"}.isdisjoint(changes):
            config = _with_fewer_steps(config, len(source))
    return config


def _values(method: str, task: TaskName | None, recipe: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Each option that differs from its default."""
    found = find_recipe(recipe)
    values = {"sampler": sampler_of(task, method), **found.training, **found.network, **found.inputs}
    own = dict(found.methods.get(method, {}))
    if task == "regression":
        wider = {"hidden": NUMBERS_HIDDEN} if recipe in ("table", "words") else {}
        values |= NUMBERS | wider if found.numbers is None else found.numbers
        own |= {**NUMBERS_METHODS.get(method, {}), **found.numbers_methods.get(method, {})}
    values |= _without_replaced(own, changes)
    for option, gives, (other, value) in FOLLOWS:
        if gives(changes.get(option)):
            values[other] = value
    return values | dict(changes)


def _with_fewer_steps(config: RunConfig, samples: int) -> RunConfig:
    """The steps of source-only on a small source with numbers."""
    passes, training = find_recipe(config.recipe).numbers_passes, config.training
    if passes is None or config.method != SOURCE_ONLY or training.steps is None:
        return config
    steps = min(training.steps, max(passes * samples // training.batch_size, FEWEST))
    return replace(config, training=replace(training, steps=steps))


def smoother(config: RunConfig, given: Collection[str]) -> RunConfig | None:
    """The same with a smoother network, which may predict numbers better; None if the user has `given` any of its
    options, or there is none.

    >>> config = make_config(None, "source-only", "measurements", {}, "regression")
    >>> smoother(config, ()).network.bins, smoother(config, ["bins"])
    (8, None)
    """
    changes = find_recipe(config.recipe).numbers_smooth
    if not changes or not changes.keys().isdisjoint(given) or config.method != SOURCE_ONLY or not config.network.bins:
        return None
    return replace(config, network=replace(config.network, **changes))


def _without_replaced(own: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a recipe for a method, without the cost weights if those of DeepJDOT's authors are requested."""
    if changes.get("cost_weights") != "original":
        return dict(own)
    for name, value in DeepJDOTOptions.ORIGINAL.items():
        if changes.get(name, value) != value:
            raise ArgumentError(
                f"{name}: must be left out with cost_weights='original', which sets it to {value:g}, got "
                f"{changes[name]!r}."
            )
    return {name: value for name, value in own.items() if name not in {*DeepJDOTOptions.ORIGINAL, "scale", "scale_at"}}


def check_changes(
    method: str, recipe: str | None, changes: Mapping[str, Any], task: TaskName | None = None
) -> RunConfig:
    """Refuse, before any data are read, changes that are wrong for all data; return the possible configurations.

    Without a `recipe`, all recipes are possible: that of the data is made and checked once they are read.
    """
    return make_config(None, method, DEFAULTS[0] if recipe is None else recipe, changes, task)


def recipe_for(source: Domain | None) -> str:
    """The recipe for this kind of data, wherever they come from."""
    from jumbot.data._inputs import SMALL, kind_of, largest_side
    from jumbot.data._row_kinds import kind_of_rows

    if source is None:
        raise ArgumentError(
            f"recipe must be given if there are no data to choose it by; use one of {', '.join(RECIPES)}."
        )
    if kind_of(source) == "features":
        return {"features": "table"}.get(kind := kind_of_rows(source), kind)
    if kind_of(source) in ("signal", "raw"):
        return "signals"
    return "digits" if largest_side(source) <= SMALL else "photographs"


DEFAULTS = ("measurements", "words", "table", "digits", "photographs", "signals")
"""The recipes that `recipe_for` chooses from."""


def find_recipe(name: str) -> Recipe:
    """The recipe of that name."""
    return RECIPES[check_word("recipe", name, RECIPES)]


def option_names(method: str) -> set[str]:
    """All names that are allowed in `changes` for this method.

    >>> "tau" in option_names("jumbot"), "tau" in option_names("dann"), "steps" in option_names("dann")
    (True, False, True)
    """
    return set(_owners(method))


def _check_fits(source: Domain, config: RunConfig, changes: Mapping[str, Any]) -> None:
    """Refuse changes that have no effect on this kind of data."""
    from jumbot.data._inputs import kind_of

    kind = kind_of(source)
    rows = kind == "features" or config.network.freeze  # a frozen backbone turns images into rows of features
    data = {"features": "rows of numbers", "image": "images that train a whole network"}.get(kind, kind)
    named = config.network.backbone not in (None, *BUILT_IN)
    of_tables = dict.fromkeys(("columns", "dates", "text"), data)
    in_vain = of_tables if kind != "features" else {"backbone": data} if named else {}
    if kind != "image":
        in_vain |= dict.fromkeys(("size", "channels", "pixels", "augment", "views", "weights", "freeze"), data)
    elif named:
        in_vain |= dict.fromkeys(("channels", "pixels"), f"{config.network.backbone}, which has its own")
    if not rows:
        in_vain |= dict.fromkeys(("hidden", "bins", "rank", *(["standardise"] if kind == "image" else [])), data)
    module = changes.get("backbone", "") is None  # `adapt` sets this for the user's own module
    if module and not config.network.freeze:
        in_vain["hidden"] = "your own backbone"
    if config.network.freeze or not (named or (module and config.network.features is not None)):
        in_vain["backbone_rate"] = "a frozen backbone" if config.network.freeze else "a network that has one rate"
    if config.training.workers and kind != "image":  # none is the default
        in_vain["workers"] = data
    if config.training.evaluate_every == 0:
        in_vain["evaluate_samples"] = "evaluate_every=0"
    if not isinstance(config.options, TransportOptions):
        in_vain["global_plan"] = f"{config.method}, which has no plan"
    elif config.options.scale is None:
        in_vain["scale_at"] = "scale=None"
    if config.training.schedule == "constant":
        in_vain["schedule_steps"] = "schedule='constant'"
    owners = _owners(config.method)
    for option, what in in_vain.items():
        part = getattr(config, owners[option])
        if option in changes and getattr(part, option) != getattr(type(part)(), option):
            raise ArgumentError(f"{option} has no effect on {what}.")


def _owners(method: str) -> dict[str, str]:
    """The part of the configuration that each option belongs to."""
    parts = {"options": options_class(method), **PARTS}
    return {field.name: part for part, cls in parts.items() for field in fields(cls)}


def _where(option: str, method: str) -> str:
    """Which methods have the option, or a similar name."""
    others = [name for name in METHODS if name != method and option in _owners(name)]
    if others:
        return f"it is one of {', '.join(others)}."
    return suggest_option(option, [*_owners(method), *(field.name for field in fields(Reading))])
