"""Every option of every command with odd values: accepted for a reason, or refused by its name before any work."""

from __future__ import annotations

import typing
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jumbot
from jumbot._base.options import Options
from jumbot.cli import main
from jumbot.cli._app import COMMANDS
from jumbot.cli._arguments import Argument, Entry, _single, entries, flag
from jumbot.cli._run_options import every_option
from tests.refusals import refused

WORK = {
    "adapt": "jumbot.adaptation._adapt.adapt",
    "tune": "jumbot.adaptation._tune.tune",
    "compare": "jumbot.adaptation._grid.compare",
    "demo": "jumbot.adaptation._grid.compare",
    "predict": "jumbot.adaptation._model.load",
    "evaluate": "jumbot.adaptation._model.load",
    "export": "jumbot.adaptation._model.load",
    "features": "jumbot.adaptation._written_tables.write_features",
    "shift": "jumbot._shift.found.read_domains",
    "distance": "jumbot.data._tables.load_pair",
    "flow": "jumbot.data._tables.load_pair",
    "reproduce": "jumbot.cli._reproduce.reproduce",
    "bench": "subprocess.run",
    "completion": "jumbot.cli._completion.bash",
    "doctor": "jumbot.cli._doctor.examine",
}
"""What each command calls once its options are checked."""
NEEDED = {
    "adapt": ["a", "b", "--out", "new"],
    "tune": ["a", "b", "--out", "new"],
    "compare": ["a", "b"],
    "predict": [".", "b"],
    "evaluate": [".", "b"],
    "export": [".", "b.onnx"],
    "features": ["a"],
    "shift": ["a", "b"],
    "distance": ["a", "b", "--epsilon", "1"],
    "flow": ["a", "b", "--epsilon", "1"],
    "reproduce": ["digits"],
    "completion": ["bash"],
}
NUMBERS = ("-1", "0", "99999999999999999999", "1e400", "nan", "inf", "", "many", "1.5")
ZERO = {  # where nothing of it, or no weight, is a choice
    "bins",
    "rank",
    "source_epochs",
    "source_steps",
    "evaluate_every",
    "backbone_rate",
    "weight_decay",
    "validation",
    "seed",
    "epsilon",
    "workers",
}
INFINITE = {"tau"}  # an exact marginal


class Accepted(Exception):
    """Raised in the place of the work."""


def classes() -> dict[str, type[Options]]:
    found = {}
    for command in COMMANDS:
        module = import_module(f"jumbot.cli._{command}")
        own = [c for c in vars(module).values() if isinstance(c, type) and c.__module__ == module.__name__]
        found[command] = next(c for c in reversed(own) if issubclass(c, Options))
    return found


def options() -> list[Any]:
    """Options of every command; one that several commands have is tried with the first of them in the quick run."""
    found, seen = [], set()
    for command, cls in classes().items():
        more = every_option() if command in ("adapt", "tune", "compare", "reproduce") else []
        for name, entry in entries(cls, *(more if command == "adapt" else [])).items():
            if not isinstance(entry.marker, Argument) and not entry.is_flag:
                again = (name, str(entry.kind)) in seen
                seen.add((name, str(entry.kind)))
                marks = [pytest.mark.slow] if again else []
                found.append(pytest.param(command, name, entry, id=f"{command}-{name}", marks=marks))
    return found


def odd(entry: Entry) -> tuple[str, ...]:
    plain, _ = _single(entry.kind)
    return NUMBERS if plain in (int, float) else ("", " ") if plain in (str, Path) else ("", "many", "-1", "nan")


@pytest.fixture
def no_work(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def accepted(*_: Any, **__: Any) -> Any:
        raise Accepted

    # a name that is imported for the first time while it is replaced would stay replaced
    for name in jumbot.__all__:
        getattr(jumbot, name)
    for command in WORK:
        import_module(f"jumbot.cli._{command}")
    for place in set(WORK.values()):
        module, _, name = place.rpartition(".")
        monkeypatch.setattr(import_module(module), name, accepted)
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize(("command", "name", "entry"), options())
def test_odd_values(command: str, name: str, entry: Entry, capsys: pytest.CaptureFixture[str]) -> None:
    methods = (
        [m for m in jumbot.methods.METHODS if name in entries(jumbot.methods.options_class(m))]
        if command == "adapt"
        else []
    )
    needed = [*NEEDED.get(command, []), *(["--method", methods[0]] if methods else [])]
    if name == "epsilon" and command in ("distance", "flow"):
        needed = needed[:2]
    if name in ("out", "method"):
        needed = [word for i, word in enumerate(needed) if f"--{name}" not in (word, needed[max(i - 1, 0)])]
    plain, _ = _single(entry.kind)
    for value in odd(entry):
        try:
            status = main([command, *needed, f"{flag(name)}={value}"])
        except Accepted:
            accepted = True
        else:
            accepted = False
            assert status == 2, value
            output = capsys.readouterr().err
            assert flag(name) in output or name in output, (value, output)
            assert "Traceback" not in output
        if plain in (int, float):
            reason = (
                (value == "0" and name in ZERO)
                or (value == "inf" and name in INFINITE)
                or (value == "1e400" and name in INFINITE)
                or (plain is float and value in ("1.5", "99999999999999999999"))
            )
            assert not accepted or reason or (plain is float and value == "0"), value
        elif typing.get_origin(plain) is typing.Literal or not value.strip():
            assert not accepted, value


PYTHON: dict[str, tuple[Any, ...]] = {
    name: (-1, 10**20, 1e400, float("nan"), "many", "", None, [1], True, 1.5)
    for name in ("seed", "batch_size", "k", "steps", "evaluate_samples", "checkpoint_every", "features", "size")
}


@pytest.mark.parametrize("name", PYTHON)
def test_python_refuses_the_same(name: str) -> None:
    from jumbot.adaptation._config import make_config

    for value in PYTHON[name]:
        if value is None and name not in ("seed", "batch_size", "k"):
            continue
        with refused(name):
            make_config(None, "jumbot", "table", {name: value})


@pytest.mark.parametrize("seed", [-1, 10**20, 1.5, float("nan"), "x", True])
def test_seeds_are_bounded_everywhere(seed: Any) -> None:
    x = np.zeros((8, 2))
    calls = {
        "tune": lambda: jumbot.tune((x, np.arange(8) % 2), x, seed=seed),
        "estimate": lambda: jumbot.estimate(x, x, m=2, k=2, epsilon=1.0, seed=seed),
        "flow": lambda: jumbot.gradient_flow(x, x, m=2, steps=1, learning_rate=0.1, epsilon=1.0, tau=1.0, seed=seed),
        "couple": lambda: jumbot.couple(x, x, seed=seed),
    }
    for name, call in calls.items():
        if name != "tune" and seed is True:
            continue
        with refused("seed"):
            call()
