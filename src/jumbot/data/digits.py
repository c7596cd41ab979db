"""The digits of the paper: USPS, MNIST, M-MNIST and SVHN, from `.npz` or the files in which they are published."""

from __future__ import annotations

import os
import urllib.request
from pathlib import Path

import numpy as np

from jumbot.data.arrays import from_arrays
from jumbot.data.domain import Domain
from jumbot.data.rawdigits import FILES, read_raw
from jumbot.errors import ArgumentError, JumbotError, MissingPackageError

NAMES = ("usps", "mnist", "mnistm", "svhn")
SPLITS = ("train", "test", "extra")
_SITES = {
    "mnist": "https://ossci-datasets.s3.amazonaws.com/mnist/t10k-labels-idx1-ubyte.gz",
    "usps": "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass/usps.t.bz2",
    "svhn": "http://ufldl.stanford.edu/housenumbers/test_32x32.mat",
}


class DataNotFoundError(JumbotError, FileNotFoundError):
    """The files of a data set are not on this machine; the message says which to place where."""


def data_root(root: str | Path | None = None) -> Path:
    """Where the digits are: `root`, else the environment variable JUMBOT_DATA, else ~/.cache/jumbot."""
    return Path(root or os.environ.get("JUMBOT_DATA") or "~/.cache/jumbot").expanduser()


def load(
    name: str,
    split: str = "train",
    root: str | Path | None = None,
    *,
    download: bool = True,
    photographs: str | Path | None = None,
    seed: int = 0,
) -> Domain:
    """The digits `name` = "usps", "mnist", "mnistm" or "svhn", `split` = "train" or "test" (svhn also "extra").

    Read from the first of these that is there, below `root` (else JUMBOT_DATA, else ~/.cache/jumbot):
    `<name>/<split>.npz` with `images` (n x h x w or n x h x w x 3, uint8) and `labels`; the published files as
    torchvision stores them. What is absent is downloaded by torchvision if `download` and there is a network. M-MNIST
    is on no server: without its `.npz` it is built of MNIST and the `photographs` in a folder (`make_mnistm`, `seed`).

    Samples are bytes in their own size (USPS 16, MNIST and M-MNIST 28, SVHN 32); `prepare` resizes.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as root:
    ...     (Path(root) / "usps").mkdir()
    ...     np.savez(Path(root) / "usps" / "train.npz", images=np.zeros((2, 16, 16), np.uint8), labels=[4, 2])
    ...     usps = load("usps", "train", root)
    >>> len(usps), usps.shape, usps.labels.tolist()
    (2, (1, 16, 16), [4, 2])
    """
    if name not in NAMES:
        raise ArgumentError(f"name: {name!r} came in; the sets of digits are {', '.join(NAMES)}.")
    if split not in SPLITS or (split == "extra" and name != "svhn"):
        raise ArgumentError(
            f"split: {split!r} came in; use 'train' or 'test'" + (", or 'extra'." if name == "svhn" else ".")
        )
    place = data_root(root)
    archive = place / name / f"{split}.npz"
    if archive.is_file():
        return _from_npz(archive, name)
    if name == "mnistm":
        return _built(split, place, download, photographs, seed, archive)
    found = read_raw(name, split, place)
    reason = "downloading is switched off"
    if found is None and download:
        reason = _download(name, split, place)
        found = read_raw(name, split, place)
    if found is None:
        raise DataNotFoundError(_instructions(name, split, place, reason))
    return _domain(name, *found)


def _domain(name: str, images: np.ndarray, labels: np.ndarray) -> Domain:
    return Domain(name, from_arrays(images, name=name).samples, labels, tuple("0123456789"))


def _from_npz(archive: Path, name: str) -> Domain:
    try:
        with np.load(archive) as arrays:
            images, labels = arrays["images"], arrays["labels"]
    except (OSError, KeyError, ValueError, EOFError) as error:
        raise ArgumentError(f"{archive}: cannot be read ({error}); it must hold `images` and `labels`.") from error
    if images.dtype != np.uint8 or images.ndim not in (3, 4):
        raise ArgumentError(
            f"{archive}: images are {images.dtype} of shape {images.shape}; they must be n x h x w uint8."
        )
    return _domain(name, images, labels)


def _built(split: str, place: Path, download: bool, photographs: str | Path | None, seed: int, archive: Path) -> Domain:
    from jumbot.data.mnistm import make_mnistm

    if photographs is None:
        raise DataNotFoundError(
            f"M-MNIST ({split}) is not at {archive}, and no server has it. Place that file (`images`: n x 28 x 28 x 3 "
            "uint8, `labels`: n), or have it built of MNIST with photographs=FOLDER; the published recipe takes the "
            "photographs of BSDS500."
        )
    digits = load("mnist", split, place, download=download)
    images = make_mnistm(digits.samples.array, photographs, seed=[seed, SPLITS.index(split)])  # type: ignore[attr-defined]
    assert digits.labels is not None
    return _domain("mnistm", images, digits.labels)


def _download(name: str, split: str, place: Path) -> str:
    """Try it, and say why nothing came."""
    try:
        urllib.request.urlopen(urllib.request.Request(_SITES[name], method="HEAD"), timeout=5).close()
    except (OSError, ValueError) as error:
        return f"there is no network to download it ({error})"
    try:
        from jumbot.data.torchvision import import_torchvision

        datasets = import_torchvision().datasets
        place.mkdir(parents=True, exist_ok=True)
        if name == "svhn":
            datasets.SVHN(str(place / name), split=split, download=True)
        elif name == "usps":
            datasets.USPS(str(place / name), train=split == "train", download=True)
        else:
            datasets.MNIST(str(place), train=split == "train", download=True)
    except (MissingPackageError, OSError, RuntimeError) as error:
        return f"the download failed ({error})"
    return "the download left no files"


def _instructions(name: str, split: str, place: Path, reason: str) -> str:
    files = " and ".join(FILES[name, split])
    where = place / ("MNIST/raw" if name == "mnist" else name)
    others = [other for other in SPLITS if (place / name / f"{other}.npz").is_file()]
    note = f" (of {name} there is only {', '.join(others)})" if others else ""
    site = _SITES[name].rpartition("/")[0]
    return (
        f"{name} ({split}) is not below {place}{note}, and {reason}. Place {files} from {site} "
        f"in {where}, or {split}.npz with `images` (uint8) and `labels` in {place / name}; another place is named by "
        "root=... or by the environment variable JUMBOT_DATA."
    )
