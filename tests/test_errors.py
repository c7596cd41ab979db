"""What errors say: the nearest word, the package to install."""

from __future__ import annotations

import pickle
import shlex
import sys
from collections.abc import Collection
from pathlib import Path
from subprocess import CompletedProcess

import pytest

import jumbot
from jumbot._base.files import replacing, write_text
from jumbot._base.options import check_word
from jumbot.errors import ArgumentError, MissingPackageError, need, suggest
from tests.processes import run_apart

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("word", "known", "near"),
    [
        ("jumbo", ["jumbot", "dann"], "jumbot"),
        ("DANN", ["jumbot", "dann"], "dann"),
        ("cdan", ["cdan-e", "dann"], "cdan-e"),
        ("xyz", ["jumbot", "dann"], None),
        (3, ["jumbot"], None),
        (None, [], None),
    ],
)
def test_the_nearest_word(word: object, known: list[str], near: str | None) -> None:
    suggestion = suggest(word, known)
    assert suggestion.startswith(f"did you mean {near!r}? " if near else "Known: ")
    assert all(name in suggestion for name in known)


@pytest.mark.parametrize(
    ("message", "argument"),
    [
        ("tau: -1 is below 0.", "tau"),
        ("tau must be a number > 0, got -1.", "tau"),
        ("init (f): contains NaN.", "init"),
        ("source 2: has no labels.", "source"),
        ("X_target has 3 columns, X has 4.", "X_target"),
        ("Both clouds must have one dimension.", None),
        ("model.json: is incomplete.", None),
        ("", None),
    ],
)
def test_an_error_names_its_argument(message: str, argument: str | None) -> None:
    assert ArgumentError(message).argument == argument
    assert ArgumentError(message, argument="other").argument == "other"
    again = pickle.loads(pickle.dumps(ArgumentError(message, argument="other")))
    assert (str(again), again.argument) == (message, "other")


@pytest.mark.parametrize("arguments", [{"tau": -1.0}, {"epsilon": -1.0}, {"tol": "x"}, {"divergence": "nothing"}])
def test_solve_names_what_is_wrong(arguments: dict[str, object]) -> None:
    with pytest.raises(ArgumentError) as caught:
        jumbot.solve([[1.0]], **{"epsilon": 0.1, **arguments})
    assert caught.value.argument == next(iter(arguments))


@pytest.mark.parametrize("value", ["produkt", "", None, 3, ["product"], {"product": 1}])
@pytest.mark.parametrize("known", [("product", "ones"), {"product": 0, "ones": 1}])
def test_a_word_that_is_not_known_is_refused_whatever_it_is(value: object, known: Collection[str]) -> None:
    with pytest.raises(ArgumentError) as caught:
        check_word("reference", value, known)
    assert caught.value.argument == "reference"
    assert all(word in str(caught.value) for word in known)


def test_words_are_checked_in_one_place() -> None:
    """By `check_word`: what else says that a name is not known looks for it in another way, or is the command's."""
    schema, command = "_base/schema.py", "cli/_reproduce.py"
    own = {schema, command, "_base/options.py", "_settings/names.py", "data/_benchmarks.py", "_paper/fig6.py"}
    source = Path(jumbot.__file__).parent
    found = {
        file.relative_to(source).as_posix()
        for file in source.rglob("*.py")
        if "is not known; {suggest(" in file.read_text(encoding="utf-8")
    }
    assert found <= own


def test_a_missing_package_is_one_class_of_error_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(MissingPackageError, match=r"jumbot\[tensorb"):
        need("tensorboard", "curves", "tensorboard")
    assert issubclass(MissingPackageError, (ImportError, jumbot.JumbotError))


HIDE = "import sys; sys.modules[{!r}] = None; "


PLACES = {
    "sklearn": "import jumbot; jumbot.DomainAdaptationClassifier",
    "accelerate": "import jumbot, numpy; x = numpy.eye(4); jumbot.adapt((x, [0, 1, 0, 1]), x)",
    "safetensors": "import jumbot; jumbot.load('tests/models/0.1/table')",
    "matplotlib": "import jumbot, numpy; x = numpy.eye(4); jumbot.adapt((x, [0, 1, 0, 1]), x, out='x')",
}
COMMANDS = [["distance", "x", "y"], ["adapt", "--help"], ["demo", "--seed", "1"]]


@pytest.fixture(scope="module")
def without() -> dict[str, CompletedProcess[str]]:
    """What is said where a package is missing."""
    codes = {
        package: f"import os; os.chdir({str(ROOT)!r}); {HIDE.format(package)}{PLACES[package]}" for package in PLACES
    }
    call = HIDE.format("tyro") + "from jumbot.cli import main; sys.exit(main({!r}))"
    codes |= {shlex.join(arguments): call.format(arguments) for arguments in COMMANDS}
    return run_apart(codes, before="import torch, numba, pandas, scipy.stats")  # what none of them misses


@pytest.mark.parametrize("package", PLACES)
def test_from_every_place(package: str, without: dict[str, CompletedProcess[str]]) -> None:
    last = without[package].stderr.strip().splitlines()[-1]
    assert last.startswith("jumbot.errors.MissingPackageError")
    assert "jumbot[adapt]" in last


@pytest.mark.parametrize("arguments", COMMANDS)
def test_the_command_without_tyro_says_what_to_install(
    arguments: list[str], without: dict[str, CompletedProcess[str]]
) -> None:
    done = without[shlex.join(arguments)]
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "pip install 'jumbot[adapt]'" in done.stderr


def test_files_are_written_whole_or_not_at_all(tmp_path: Path) -> None:
    file = write_text(tmp_path / "deep" / "a.txt", "before")

    def half() -> None:
        with replacing(file) as part:
            part.write_text("half")
            raise ValueError("half-way")

    with pytest.raises(ValueError, match="half"):
        half()
    assert file.read_text() == "before"
    assert [path.name for path in file.parent.iterdir()] == ["a.txt"]
    with pytest.raises(jumbot.JumbotError, match=r"\(.*full\)"), replacing(file):
        raise OSError("disk full")
    (tmp_path / "file").write_text("")
    with pytest.raises(jumbot.JumbotError, match=r"a\.txt"):
        write_text(tmp_path / "file" / "a.txt", "x")


def test_files_follow_the_umask(tmp_path: Path) -> None:
    from safetensors.torch import save_file
    from torch import ones

    with replacing(tmp_path / "model.safetensors") as part:
        save_file({"x": ones(1)}, part)
    plain = tmp_path / "plain"
    plain.write_text("")
    assert (tmp_path / "model.safetensors").stat().st_mode == plain.stat().st_mode
