"""A cache on disk that is damaged or cannot be written is as if it were not there, and is said once."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import tempfile
import warnings
from pathlib import Path

import numba
import pytest

import jumbot
from jumbot.transport._kernels import code_cache

SOURCE = """
import numpy as np
from jumbot.transport._kernels.decorator import compiled

def times(factor):
    @compiled()
    def product(x):
        return factor * x
    return product

@compiled()
def total(x):
    found = 0.0
    for i in range(x.shape[0]):
        found += x[i]
    return found

def results():
    return times(2.0)(3.0), times(3.0)(3.0), total(np.arange(3.0))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(tmp_path)  # what is stored names its module
    (tmp_path / "compiled_functions.py").write_text(SOURCE)
    return tmp_path


def run(folder: Path) -> tuple[int, int, str]:
    """As a new process would: how many warnings, how many functions from the cache, and what was warned of."""
    spec = importlib.util.spec_from_file_location("compiled_functions", folder / "compiled_functions.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    code_cache._warned.clear()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert module.results() == (6.0, 9.0, 3.0)
    assert {warning.category for warning in seen} <= {jumbot.CacheWarning}
    hits = sum(module.total.stats.cache_hits.values())
    return len(seen), hits, " ".join(str(warning.message) for warning in seen)


def cached(folder: Path, suffix: str) -> list[Path]:
    found = sorted((folder / "cache").rglob(f"*{suffix}"))
    assert found
    return found


def flip(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


DAMAGE = {
    "empty": lambda data: b"",
    "cut in half": lambda data: data[: len(data) // 2],
    "cut at its head": lambda data: data[:20],
    "its last byte gone": lambda data: data[:-1],
    "a bit flipped": lambda data: flip(data, len(data) // 2),
    "its last bit flipped": lambda data: flip(data, len(data) - 1),
    "something else": lambda data: b"not a cache at all",
}


@pytest.mark.parametrize("suffix", [".nbi", ".nbc"])
def test_damaged_files_are_written_again(suffix: str, folder: Path) -> None:
    assert run(folder) == (0, 0, "")
    assert run(folder) == (0, 1, "")
    for name, damaged in DAMAGE.items():
        for path in cached(folder, suffix):
            path.write_bytes(damaged(path.read_bytes()))
        warned, hits, words = run(folder)
        assert (warned, hits) == (1, 0), name
        assert "is damaged) and is compiled again" in words
        assert run(folder) == (0, 1, ""), f"{name}: written anew"
    assert not list((folder / "cache").rglob("*.part"))


def test_files_of_another_version_are_stale_and_not_damaged(folder: Path) -> None:
    run(folder)
    for path in cached(folder, ".nb?"):
        path.write_bytes(path.read_bytes().replace(b", numba ", b", numba 1", 1))
    assert run(folder)[:2] == (0, 0)
    assert run(folder)[:2] == (0, 1)


@pytest.mark.parametrize("name", ["cgone\nThing\n.", "cjumbot.errors\nGoneError\n."])
@pytest.mark.parametrize("suffix", [".nbi", ".nbc"])
def test_code_whose_names_are_gone_is_stale_and_not_damaged(suffix: str, name: str, folder: Path) -> None:
    """As after an upgrade in which a module or a class has another name."""
    run(folder)
    body = name.encode()
    for path in cached(folder, suffix):
        path.write_bytes(code_cache._HEAD + hashlib.sha256(body).digest() + body)
    assert run(folder) == (0, 0, "")
    assert run(folder) == (0, 1, "")


def test_numbers_that_two_processes_took_at_once(folder: Path) -> None:
    """An index that names the data of another closure: the function in it must not be taken."""
    run(folder)
    one, two = (path for path in cached(folder, ".nbc") if "product" in path.name)
    first, second = one.read_bytes(), two.read_bytes()
    one.write_bytes(second)
    two.write_bytes(first)
    assert run(folder)[0] == 0


def test_data_that_is_gone(folder: Path) -> None:
    run(folder)
    for path in cached(folder, ".nbc"):
        path.unlink()
    assert run(folder)[:2] == (0, 0)
    assert run(folder)[:2] == (0, 1)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
@pytest.mark.parametrize("kind", ["mkdir", "mkfifo"])
def test_what_is_no_file_is_not_read(kind: str, folder: Path) -> None:
    run(folder)
    for path in cached(folder, ".nbi"):
        path.unlink()
        getattr(os, kind)(path)
    warned, hits, words = run(folder)
    assert (warned, hits) == (1, 0)
    assert "not a regular file" in words


def test_a_full_disk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = Path.write_bytes

    def full(path: Path, data: bytes) -> int:
        write(path, data[:10])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_bytes", full)
        for _ in range(2):
            warned, hits, words = run(folder)
            assert (warned, hits) == (1, 0)
            assert "No space left" in words
            assert "NUMBA_CACHE_DIR" in words
    assert not list((folder / "cache").rglob("*.nb?*"))
    assert run(folder)[:2] == (0, 0)
    monkeypatch.setattr(Path, "write_bytes", full)
    assert run(folder)[:2] == (0, 1), "what is there is read"


def test_no_folder_that_can_be_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **keywords: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    warned, hits, words = run(folder)
    assert (warned, hits) == (1, 0)
    assert "no folder is writable" in words


def test_a_folder_that_is_removed_while_it_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(folder)
    load = code_cache.CodeCache.load_overload

    def removing(cache: code_cache.CodeCache, signature: object, context: object) -> object:
        shutil.rmtree(folder / "cache", ignore_errors=True)
        return load(cache, signature, context)

    monkeypatch.setattr(code_cache.CodeCache, "load_overload", removing)
    assert run(folder)[:2] == (0, 0)
