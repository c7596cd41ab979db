"""Where runs are on disk: which files and folders are refused, and who may write."""

from __future__ import annotations

import datetime
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from jumbot._base.files import read_bytes
from jumbot._base.schema import check_header
from jumbot.errors import ArgumentError, JumbotError, need

LOCK, HOLDER = ".lock", ".lock-holder"
OURS = (LOCK, HOLDER)
"""Files that do not count as content of a folder."""


@contextmanager
def writing(folder: str | Path) -> Iterator[None]:
    """Lock `folder`, created if needed, for this process; other processes that want to write to it are refused.

    The operating system holds the lock (through filelock) and releases it when the process ends, even if it is killed.
    A folder that was created but not used is removed.
    """
    filelock = need("filelock", "writing a run", "adapt")
    folder = Path(folder)
    made = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(folder / LOCK)
        lock.acquire(timeout=0)
    except filelock.Timeout:
        raise ArgumentError(
            f"{folder}: {_holder(folder)} is writing to it; wait until it finishes, or choose another name."
        ) from None
    except OSError as error:
        raise JumbotError(f"{folder}: cannot be written ({error}).") from error
    try:
        with suppress(OSError):  # for messages only; the lock does not depend on it
            since = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
            (folder / HOLDER).write_text(f"process {os.getpid()} on {socket.gethostname()} (since {since})\n", "utf-8")
        yield
    finally:
        with suppress(OSError):
            (folder / HOLDER).unlink(missing_ok=True)
        with suppress(OSError):  # Windows cannot remove an open file
            (folder / LOCK).unlink()
        lock.release()
        with suppress(OSError):
            (folder / LOCK).unlink(missing_ok=True)
            if made:
                folder.rmdir()


def _holder(folder: Path) -> str:
    try:
        return read_bytes(folder / HOLDER).decode().strip() or "another process"
    except ValueError:  # an ArgumentError is one
        return "another process"


CONFIG, MODEL, CHECKPOINT = "config.json", "model.json", Path("checkpoints", "last.safetensors")
COMPARISON, TUNING = "compare.json", "tune.json"
BEST = "best"
"""In the folder of `tune`: the name of the run that it picked."""
TABLES = (".npz", ".parquet", ".csv")


def first_process() -> bool:
    """Whether this is the process that writes; known before any group of processes is formed."""
    return os.environ.get("RANK", "0") == "0"


def check_run_place(folder: Path, resume: bool) -> None:
    """Refuse a place where no run can start or continue."""
    _check_no_file(folder)
    if (folder / CONFIG).exists():
        if not resume:
            raise ArgumentError(f"{folder}: already contains a run; pass --resume to continue it, or choose another.")
        check_header(folder / CONFIG)
    elif _has_others(folder):
        raise ArgumentError(f"{folder}: contains other files but no run; choose another name.")


def check_is_run(folder: Path) -> Path:
    """The `config.json` of a run folder; refuse other folders."""
    if not (folder / CONFIG).exists():
        raise ArgumentError(f"{folder}: is not the folder of a run: it contains no {CONFIG}.")
    check_header(folder / CONFIG)
    return folder / CONFIG


def needed_start(start_from: Path | None, out: Path | None, resume: bool) -> Path | None:
    """The run to start from, which must exist; None if a run continues from its own checkpoint."""
    if start_from is None or (
        resume and out is not None and any((out / file).exists() for file in (MODEL, CHECKPOINT))
    ):
        return None
    check_is_run(start_from)
    return start_from


def settings_file(config: str | Path | None, out: str | Path | None, resume: bool, data: bool) -> Path | None:
    """The `config.json` whose settings are used: the named one or, without `data`, that of the run to continue."""
    if config is None and resume and not data and out is not None:
        config = Path(out) / CONFIG
    if config is None:
        return None
    file = Path(config)
    if not file.exists():
        raise ArgumentError(f"config: {file} does not exist.")
    check_header(file)
    return file


def check_tuning_place(folder: Path) -> None:
    """Refuse a place where `tune` can neither start nor continue."""
    _check_no_file(folder, "out: ")
    if (folder / TUNING).exists():
        check_header(folder / TUNING)
    elif _has_others(folder):
        raise ArgumentError(f"out: {folder} contains other files but no {TUNING}; choose another name.")


def check_comparison_place(folder: Path) -> None:
    """Refuse a place where `compare` cannot write; other files do no harm."""
    _check_no_file(folder, "out: ")
    if (folder / COMPARISON).exists():
        check_header(folder / COMPARISON)


def check_table_place(out: Path) -> None:
    """Refuse a file that no table of features can be written to."""
    if out.suffix not in TABLES:
        raise ArgumentError(f"out: got {out.name!r}; the name must end in {', '.join(TABLES)}.")
    if out.exists():
        raise ArgumentError(f"{out}: already exists; choose another name with --out.")


def model_folder(folder: Path) -> Path:
    """Where the model is: in the folder itself, or in that of the run that `tune` picked there."""
    folder = picked(folder)
    if not folder.exists():
        raise ArgumentError(f"{folder}: does not exist; pass the folder of a run or of a saved model.")
    if not (folder / MODEL).exists():
        unfinished = (folder / CONFIG).exists()
        hint = "the run is not finished; pass --resume to continue it" if unfinished else f"it contains no {MODEL}"
        raise ArgumentError(f"{folder}: no model to load; {hint}.")
    check_header(folder / MODEL)
    return folder


def picked(folder: Path) -> Path:
    """The folder of the run that `tune` picked in `folder`; any other folder is itself."""
    file = folder / BEST
    if not file.exists():
        return folder
    name = read_bytes(file).decode(errors="replace").strip()
    if name not in (entry.name for entry in folder.iterdir() if entry.is_dir()):
        raise ArgumentError(f"{file}: names {name[:80]!r}, which is not a folder next to it; tune again.")
    return folder / name


def _check_no_file(folder: Path, name: str = "") -> None:
    if folder.exists() and not folder.is_dir():
        raise ArgumentError(f"{name}{folder}{'' if name else ':'} is a file; pass the name of a folder.")


def _has_others(folder: Path) -> bool:
    return folder.is_dir() and any(entry.name not in OURS for entry in folder.iterdir())
