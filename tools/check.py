"""`make check`: lint what changed, check the types, run the tests of what changed.

Changed files are those that differ from BASE in git (HEAD by default: work that is not committed).  The tests of a
module are the file of its name in the mirrored folder and every test that imports it; if there are none, those of the
modules that import it, or else of its mirrored folder.  The whole suite is `make test`.  One of the tests that always
run is mypy.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: Broken by changes anywhere in the package.
ALWAYS = ("tests/test_folders.py", "tests/test_public.py")


def changed(base: str, root: Path = ROOT) -> list[Path]:
    """Files that differ from `base` or are new, deleted ones left out."""
    diff = _git(root, "diff", "--name-only", "--diff-filter=d", base)
    new = _git(root, "ls-files", "--others", "--exclude-standard")
    return sorted({Path(line) for line in diff + new})


def mirrored_tests(paths: Iterable[Path], root: Path = ROOT) -> list[str]:
    """The test files of these files, as pytest takes them."""
    texts = {file.relative_to(root): file.read_text(encoding="utf-8") for file in (root / "tests").rglob("*.py")}
    found: set[Path] = set()
    for path in paths:
        if path.suffix == ".py" and path.parts[0] == "tests":
            found |= {path} if path.name.startswith("test_") else _importing(_dotted(path), texts)
        elif path.suffix == ".py" and path.parts[:2] == ("src", "jumbot"):
            found |= {path} | (_own(path, texts) or _of_importers(path, texts, root) or _of_folder(path, texts))
        elif path.suffix == ".md":
            found.add(Path("tests/test_docs.py"))
        elif path.parts[0] in ("tools", "benchmarks"):
            found.add(Path("tests/test_tools.py"))
    return sorted(map(str, found))


def _own(path: Path, texts: dict[Path, str]) -> set[Path]:
    """The mirrored file of a module, and the tests that import it."""
    mirrored = Path("tests", *(part.lstrip("_") for part in path.parts[2:-1]), f"test_{path.stem.lstrip('_')}.py")
    return ({mirrored} & set(texts)) | _importing(_dotted(Path(*path.parts[1:])), texts)


def _of_importers(path: Path, texts: dict[Path, str], root: Path) -> set[Path]:
    """The tests of the modules that import this one; those of the same folder, if there are any."""
    sources = {file.relative_to(root): file.read_text(encoding="utf-8") for file in (root / "src").rglob("*.py")}
    pattern = _imports(_dotted(Path(*path.parts[1:])))
    importers = {file for file, text in sources.items() if file.name != "__init__.py" and pattern.search(text)}
    found = {test for importer in importers for test in _own(importer, texts)}
    return {test for test in found if test.parts[1:2] == path.parts[2:3]} or found


def _of_folder(path: Path, texts: dict[Path, str]) -> set[Path]:
    """The tests of the nearest mirrored folder: `tests/a/b/test_*.py`, or `tests/a/test_b*.py`."""
    folders = [part.lstrip("_") for part in path.parts[2:-1]]
    for depth in range(len(folders), 0, -1):
        folder, above = Path("tests", *folders[:depth]), Path("tests", *folders[: depth - 1])
        name = f"test_{folders[depth - 1]}"
        tests = {file for file in texts if file.name.startswith("test_")}
        if found := {f for f in tests if f.parent == folder or (f.parent == above and f.stem.startswith(name))}:
            return found
    return set()


def _importing(module: str, texts: dict[Path, str]) -> set[Path]:
    """Test files that import this module, or a name from it."""
    pattern = _imports(module)
    return {file for file, text in texts.items() if file.name.startswith("test_") and pattern.search(text)}


def _imports(module: str) -> re.Pattern[str]:
    """What imports a module, or patches a name in it."""
    package, _, name = module.rpartition(".")
    return re.compile(
        rf"^\s*(from {re.escape(module)} import|import {re.escape(module)}\b"
        rf"|from {re.escape(package)} import [^\n]*\b{re.escape(name)}\b)|[\"']{re.escape(module)}\.",
        re.MULTILINE,
    )


def _dotted(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _git(root: Path, *words: str) -> list[str]:
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Lint, types and tests of what changed.")
    parser.add_argument("--base", default="HEAD", help="compare with this commit (default: HEAD)")
    options = parser.parse_args(arguments)
    paths = changed(options.base)
    if not paths:
        print(f"check: nothing differs from {options.base}")
        return 0
    code = [str(path) for path in paths if path.suffix == ".py"]
    inside = any(path.startswith("src") for path in code)
    tests = sorted({*mirrored_tests(paths), *(ALWAYS if inside else ())})
    print(f"check: {len(paths)} files changed, {len(tests)} files of tests")
    python = [sys.executable, "-m"]
    steps = [
        *([[*python, "ruff", "check", *code], [*python, "ruff", "format", "--check", *code]] if code else []),
        *([[*python, "pytest", "-q", "-x", "-n", "2", "--dist", "worksteal", *tests]] if tests else []),
    ]
    return next((status for step in steps if (status := subprocess.run(step, cwd=ROOT).returncode)), 0)


if __name__ == "__main__":
    sys.exit(main())
