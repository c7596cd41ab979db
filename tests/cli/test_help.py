"""Help and usage errors: quick, in one line, with the name that was meant."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from jumbot.cli import main
from jumbot.cli._app import COMMANDS
from jumbot.methods import METHODS

HEAVY = ("torch", "numpy", "numba", "ot", "sklearn", "matplotlib", "accelerate", "pandas")
USAGE = [
    ["adpt"],
    [],
    ["adapt"],
    ["adapt", "a", "b", "--out", "c", "--steps", "0"],
    ["distance", "a", "b", "--epsilon"],
    ["adapt", "not/here", "b", "--out", "c"],
    ["tune", "a", "not/here.csv", "--out", "c"],
    ["compare", "a", "--methods", "nonsense"],
    ["demo", "--seed", "-1"],
    ["reproduce", "fig9"],
    ["evaluate", "not/here", "b"],
    ["export", "not/here", "b.onnx"],
    ["compare", "a", "--more-sources", "b"],
    ["distance", "not/here.npy", "b.npy", "--epsilon", "1"],
    ["reproduce", "fig6", "--over", "x"],
]
#: In a folder where `PLACES` are; beside each what is said of it.
PLACES = {"run/config.json": '{"format": 2}', "other/notes.txt": "", "file.npz": "", "new.json": '{"format": 99}'}
OCCUPIED = {
    "adapt a b --out run": "run: already contains a run; pass --resume to continue it",
    "adapt a b --out other": "other: contains other files but no run",
    "adapt a b --out file.npz": "file.npz: is a file",
    "adapt --resume --out other": f"{Path('other') / 'config.json'} does not exist",
    "adapt --resume --out nowhere": f"{Path('nowhere') / 'config.json'} does not exist",
    "adapt --config nowhere.json --out c": "nowhere.json does not exist",
    "adapt --config file.npz --out c": "file.npz: is not JSON",
    "adapt --config new.json --out c": "new.json: format: got 99",
    "adapt a b --start-from other --out c": "other: is not the folder of a run",
    "tune a b --out other": "out: other contains other files but no tune.json",
    "tune a b --out file.npz": "out: file.npz is a file",
    "compare a b --out file.npz": "out: file.npz is a file",
    "demo --out file.npz": "out: file.npz is a file",
    "features other --out file.npz": "file.npz: already exists",
    "features other --out features.txt": "--out: got 'features.txt'",
    "distance file.npz file.npz --epsilon 1 --divergence klx": "--divergence: 'klx' is not known; did you mean 'kl'?",
    "predict other a.csv": "other: no model to load; it contains no model.json",
    "evaluate run a.csv": "run: no model to load; the run is not finished",
    "reproduce digits --tasks X": "--tasks: 'X' is not one of digits; Known: U-M, M-MM, S-M",
    "reproduce max --tasks U-M X": "--tasks: 'U-M' is not one of office-home",
}


def made(folder: Path) -> Path:
    """The folder, with all `PLACES` in it."""
    for name, text in PLACES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return folder


def status_of(arguments: list[str]) -> int:
    try:
        return main(arguments)
    except SystemExit as stop:
        return int(stop.code or 0)


#: Pages are made alike: three of them in the quick run, the others in the slow one.
PAGES = [
    pytest.param(name, marks=[] if name in ("adapt", "distance", "reproduce") else pytest.mark.slow)
    for name in COMMANDS
]
QUICK = [
    ["--help"],
    ["completion", "bash"],
    *([name, "--help"] for name in COMMANDS),
    *USAGE,
    *map(shlex.split, OCCUPIED),
]


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Of each: the status, and what is heavy among the modules that one fresh interpreter has imported by then."""
    folder = made(tmp_path_factory.mktemp("places"))
    code = (
        "import contextlib, io, sys\nfrom jumbot.cli import main\n"
        f"for arguments in {QUICK!r}:\n"
        "    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):\n"
        "        try: status = main(arguments)\n        except SystemExit as stop: status = stop.code or 0\n"
        f"    print(status, [name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=folder)
    return dict(zip(map(shlex.join, QUICK), done.stdout.splitlines(), strict=True))


@pytest.mark.parametrize("arguments", QUICK)
def test_nothing_heavy_is_imported_to_say_so(arguments: list[str], output: dict[str, str]) -> None:
    expected = 0 if "--help" in arguments or "completion" in arguments else 2
    assert output[shlex.join(arguments)] == f"{expected} []"


@pytest.mark.parametrize("typed", OCCUPIED)
def test_places_are_refused_in_the_words_of_python(
    typed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(made(tmp_path))
    assert status_of(shlex.split(typed)) == 2
    assert OCCUPIED[typed] in capsys.readouterr().err
    found = {file.relative_to(tmp_path).as_posix() for file in tmp_path.rglob("*") if file.is_file()}
    assert found == set(PLACES)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["compare"], "SRC is missing"),
        (["tune"], "SRC is missing"),
        (["adapt", "--out", "a"], "SRC is missing"),
        (["completion", "tcsh"], "SHELL: 'tcsh' is not known"),
        ([], "which command? Known: demo"),
        (["evaluate", "nowhere", "a.csv"], "nowhere: does not exist"),
    ],
)
def test_places_are_called_as_in_the_usage(
    arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of(arguments) == 2
    assert expected in capsys.readouterr().err


@pytest.mark.parametrize("name", PAGES)
def test_every_command_explains_each_of_its_options(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of([name, "--help"]) == 0
    out = capsys.readouterr().out
    assert f"usage: jumbot {name}" in out
    assert "%%" not in out
    assert "None" not in out


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_a_narrow_terminal_and_begins_with_examples(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert status_of([name, "--help"]) == 0
    out = capsys.readouterr().out
    page, boxes = out.split("╭─", 1)
    typed = [line for line in page.splitlines() if line.startswith("  ") and not line.startswith("  #")]
    assert len(typed) == {"bench": 2, "doctor": 1}.get(name, 3)
    wide = [line for line in out.splitlines() if len(line) > 60 and line not in typed]  # to be copied: not wrapped
    assert not wide
    matter = boxes[boxes.index(" options ─") :].split("─╯")[0]
    assert matter.count("│ --") <= 10


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_are_commands_that_are_understood(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from jumbot.cli import _parsing as parsing
    from jumbot.cli._completion import options
    from jumbot.cli._help import command_class

    monkeypatch.setattr(parsing, "show_help", lambda *_: None)
    for _, typed in command_class(name).examples:
        words = shlex.split(typed.partition(" |")[0])
        if words[0] != "jumbot":  # inside a line of a shell
            continue
        command, *rest = words[1 : words.index(">") if ">" in words else None]
        parsed, _ = parsing.parse_with(command_class(command), rest, lambda given: ())
        assert parsed
        assert set(command_class(command).matter) <= set(options(command))


@pytest.mark.parametrize("method", METHODS)
def test_help_of_adapt_shows_the_options_of_the_method(method: str, capsys: pytest.CaptureFixture[str]) -> None:
    from dataclasses import fields

    from jumbot.methods import options_class

    assert status_of(["adapt", "--help", "--method", method, "--recipe", "digits"]) == 0
    out = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert all(f"--{field.name.replace('_', '-')}" in out for field in fields(options_class(method)))
    assert "(default: 500)" in out  # the batch of the recipe


def test_defaults_differ_by_recipe_until_one_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["adapt", "--help"]) == 0
    out = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "table 0.12, digits 1.0" in out  # tau


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["adpt"], "did you mean 'adapt'"),
        (["adapt", "a", "b", "--out", "c", "--tua", "3"], "did you mean --tau? see 'jumbot adapt --help'"),
        (["adapt", "a", "b", "--out", "c", "--method", "DANN"], "--method: 'DANN' is not known; did you mean 'dann'?"),
        (
            ["adapt", "a", "b", "--out", "c", "--method", "dann", "--tau", "3"],
            "see 'jumbot adapt --method dann --help'",
        ),
        (["compare", "a", "--methods", "DAN"], "--methods: 'DAN' is not known; did you mean 'dann'?"),
        (["adapt", "a", "b", "--out", "c", "--steps", "x"], "--steps must be a whole number"),
        (
            ["adapt", "a", "b", "--out", "c", "--optimizer", "adm"],
            "--optimizer: 'adm' is not known; did you mean 'adam'",
        ),
        (["adapt", "a", "--out", "c"], "TGT is missing"),
        (["adapt", "a", "b"], "--out is missing"),
        (["adapt", "a", "b", "c", "--out", "d"], "'c' is an unexpected argument"),
        (["adapt", "a", "b", "--out"], "Missing value for argument '--out'"),
        (["distance", "a", "b", "--epsilon", "nan"], "--epsilon must"),
        (["distance", "a", "b", "--epsilon", "1", "--k", "3", "--precision", ".1"], "--k and --precision"),
        (["distance", "a", "b", "--epsilon", "1", "--seed", "99999999999999999999"], "got 99999999999999999999"),
        (["flow", "a", "b", "--epsilon", "1", "--out", "x.txt"], "must end in .npy"),
        (["reproduce", "fig1", "--seeds", "3"], "--seeds: only applies to office-home"),
        (["reproduce", "digts"], "did you mean 'digits'"),
        (["compare", "a", "--seeds", "0"], "--seeds must"),
        (["compare", "a", "--methods"], "--methods: none given"),
    ],
)
def test_usage_errors_are_one_line(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert words in captured.err
    assert captured.err.count("\n") == 1
    assert "--help'" in captured.err


def test_longer_names_for_torchrun(tmp_path: object, capsys: pytest.CaptureFixture[str]) -> None:
    import numpy as np

    np.save(f"{tmp_path}/x.npy", np.arange(20.0).reshape(10, 2))
    common = ["distance", f"{tmp_path}/x.npy", f"{tmp_path}/x.npy", "--epsilon", "1"]
    assert status_of([*common, "--m", "4", "--k", "7"]) == 0
    short = capsys.readouterr().out.rpartition("  ")[0]
    assert status_of([*common, "--minibatch-size", "4", "--minibatches", "7"]) == 0
    assert capsys.readouterr().out.rpartition("  ")[0] == short
