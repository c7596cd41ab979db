"""The digits of the paper: USPS, MNIST, M-MNIST and SVHN, from `.npz` or the files in which they are published."""

from __future__ import annotations

import bz2
import gzip
import os
import urllib.request
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from jumbot._base.options import check_word
from jumbot.data._arrays import from_arrays
from jumbot.data._domain import Domain
from jumbot.data._folders import images_below
from jumbot.data._images import decode
from jumbot.data._torchvision import import_torchvision
from jumbot.errors import ArgumentError, JumbotError, MissingPackageError

FILES = {
    ("mnist", "train"): ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"),
    ("mnist", "test"): ("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"),
    ("usps", "train"): ("usps.bz2",),
    ("usps", "test"): ("usps.t.bz2",),
    ("svhn", "train"): ("train_32x32.mat",),
    ("svhn", "test"): ("test_32x32.mat",),
    ("svhn", "extra"): ("extra_32x32.mat",),
}
_FOLDERS = {"mnist": ("MNIST/raw", "mnist/MNIST/raw", "mnist", "."), "usps": ("usps", "."), "svhn": ("svhn", ".")}


def read_raw(name: str, split: str, root: Path) -> tuple[np.ndarray, np.ndarray] | None:
    """`(images, labels)` of the first folder below `root` that has all files of the split; None if none has."""
    for folder in _FOLDERS[name]:
        paths = [_either(root / folder / file) for file in FILES[name, split]]
        if all(path is not None for path in paths):
            present = [path for path in paths if path is not None]
            try:
                images, labels = _READERS[name](present)
            except (OSError, EOFError, ValueError, KeyError, IndexError, zlib.error) as error:
                raise ArgumentError(f"{present[0]}: cannot be read ({error}); download it again.") from error
            if len(images) != len(labels) or labels.min(initial=0) < 0 or labels.max(initial=0) > 9:
                raise ArgumentError(f"{present[0]}: {len(images)} images and {len(labels)} labels do not fit together.")
            return images, labels
    return None


def _either(path: Path) -> Path | None:
    """The file, packed or (idx) unpacked."""
    for candidate in (path, path.with_suffix("") if path.suffix == ".gz" else path):
        if candidate.is_file():
            return candidate
    return None


def _bytes(path: Path) -> bytes:
    if path.suffix == ".gz":
        return gzip.decompress(path.read_bytes())
    return bz2.decompress(path.read_bytes()) if path.suffix == ".bz2" else path.read_bytes()


def _idx(path: Path) -> np.ndarray:
    """idx: two zero bytes, type (8 = bytes), number of axes, their lengths as big-endian int32, data."""
    data = _bytes(path)
    if data[:3] != b"\0\0\x08":
        raise ValueError("not an idx file of bytes")
    axes = data[3]
    shape = np.frombuffer(data, ">i4", axes, 4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * axes).reshape(shape)


def _mnist(paths: list[Path]) -> tuple[np.ndarray, np.ndarray]:
    return _idx(paths[0]), _idx(paths[1]).astype(np.int64)


def _usps(paths: list[Path]) -> tuple[np.ndarray, np.ndarray]:
    """LIBSVM lines `label 1:value ... 256:value`, labels 1 ... 10 for the digits 0 ... 9, values in [-1, 1]."""
    lines = [line.split() for line in _bytes(paths[0]).decode("ascii").splitlines() if line.strip()]
    images = np.zeros((len(lines), 256), np.float64)
    for image, (_, *pixels) in zip(images, lines, strict=True):
        for index, value in (pixel.split(":") for pixel in pixels):
            image[int(index) - 1] = float(value)
    labels = np.array([int(float(line[0])) for line in lines], np.int64) - 1
    return np.rint((images + 1) * 127.5).astype(np.uint8).reshape(-1, 16, 16), labels


def _svhn(paths: list[Path]) -> tuple[np.ndarray, np.ndarray]:
    """MATLAB arrays X (32 x 32 x 3 x n) and y (n x 1), where the label 10 means the digit 0."""
    from scipy.io import loadmat

    arrays = loadmat(paths[0])
    return np.ascontiguousarray(arrays["X"].transpose(3, 0, 1, 2)), arrays["y"].ravel().astype(np.int64) % 10


_READERS = {"mnist": _mnist, "usps": _usps, "svhn": _svhn}


def make_mnistm(images: np.ndarray, folder: str | Path, seed: int | Sequence[int] = 0) -> np.ndarray:
    """Blend digits with crops of photographs: `|crop - digit|` in each channel.

    Parameters
    ----------
    images : array of uint8 of shape (n, h, w)
        The digits.
    folder : path
        A folder of photographs; those smaller than a digit are enlarged.  One is in memory at a time.
    seed : int or sequence of int, default 0
        The photograph of each digit, and the place in it, are drawn from it.

    Returns
    -------
    array of uint8 of shape (n, h, w, 3)
        The blended digits.

    Raises
    ------
    jumbot.ArgumentError
        If the images are not such an array, or the folder contains no photographs.

    Examples
    --------
    >>> import tempfile, PIL.Image
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     PIL.Image.new("RGB", (40, 30), (250, 100, 0)).save(Path(folder) / "wall.png")
    ...     make_mnistm(np.full((1, 28, 28), 200, np.uint8), folder)[0, 0, 0].tolist()
    [50, 100, 200]
    """
    images = np.asarray(images)
    if images.ndim != 3 or images.dtype != np.uint8:
        raise ArgumentError(f"images: {images.dtype} of shape {images.shape}; pass (n, h, w) uint8 digits.")
    folder = Path(folder)
    if not folder.is_dir():
        raise ArgumentError(f"photographs: {folder} is not a folder.")
    photographs = images_below(folder)
    if not photographs:
        raise ArgumentError(f"photographs: {folder} contains no images.")
    rng = np.random.default_rng(seed)
    chosen = rng.integers(len(photographs), size=len(images))
    place = rng.random((len(images), 2))
    height, width = images.shape[1:]
    made = np.empty((*images.shape, 3), np.uint8)
    for number, name in enumerate(photographs):
        rows = np.flatnonzero(chosen == number)
        if not rows.size:
            continue
        photograph = _covering(folder / name, height, width)
        tops = (place[rows, 0] * (photograph.shape[0] - height + 1)).astype(int)
        lefts = (place[rows, 1] * (photograph.shape[1] - width + 1)).astype(int)
        for row, top, left in zip(rows, tops, lefts, strict=True):
            crop = photograph[top : top + height, left : left + width]
            made[row] = np.abs(crop.astype(np.int16) - images[row, :, :, None])
    return made


def _covering(path: Path, height: int, width: int) -> np.ndarray:
    try:
        photograph = decode(path)
    except Exception as error:  # with a damaged file PIL may raise almost anything
        raise ArgumentError(f"photographs: {path} cannot be read ({error}); remove it.") from error
    h, w = photograph.shape[:2]
    if h >= height and w >= width:
        return photograph
    factor = max(height / h, width / w)
    return decode(path, (max(height, round(h * factor)), max(width, round(w * factor))))


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
    """A set of digits: USPS, MNIST, M-MNIST or SVHN.

    It is read from the first of these that exists: `<name>/<split>.npz` with `images` (n x h x w or n x h x w x 3,
    uint8) and `labels`; the published files as torchvision stores them; a download by torchvision. M-MNIST cannot be
    downloaded: without its `.npz` it is made from MNIST and photographs (`make_mnistm`).

    Parameters
    ----------
    name : {"usps", "mnist", "mnistm", "svhn"}
        Which digits.
    split : {"train", "test", "extra"}, default "train"
        Which part; "extra" is of svhn only.
    root : path, optional
        The folder of all digits; by default that in JUMBOT_DATA, or ~/.cache/jumbot.
    download : bool, default True
        Download what is missing.
    photographs : path, optional
        A folder of photographs, to make M-MNIST of.
    seed : int, default 0
        Seed of M-MNIST.

    Returns
    -------
    Domain
        Bytes in their own size (USPS 16, MNIST and M-MNIST 28, SVHN 32); `prepare` resizes.

    Raises
    ------
    jumbot.ArgumentError
        If the name or split is unknown, or the files are missing or damaged.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as root:
    ...     (Path(root) / "usps").mkdir()
    ...     np.savez(Path(root) / "usps" / "train.npz", images=np.zeros((2, 16, 16), np.uint8), labels=[4, 2])
    ...     usps = load("usps", "train", root)
    >>> len(usps), usps.shape, usps.labels.tolist()
    (2, (1, 16, 16), [4, 2])
    """
    check_word("name", name, NAMES)
    check_word("split", split, SPLITS if name == "svhn" else SPLITS[:2])
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

    if photographs is None:
        raise DataNotFoundError(
            f"M-MNIST ({split}) is not at {archive}, and it cannot be downloaded. Put that file there "
            "(`images`: n x 28 x 28 x 3 uint8, `labels`: n), or create it from MNIST with photographs=FOLDER; the "
            "published recipe uses the photographs of BSDS500."
        )
    digits = load("mnist", split, place, download=download)
    images = make_mnistm(digits.samples.array, photographs, seed=[seed, SPLITS.index(split)])  # type: ignore[attr-defined]
    assert digits.labels is not None
    return _domain("mnistm", images, digits.labels)


def _download(name: str, split: str, place: Path) -> str:
    """Try to download it, and say why that failed."""
    try:
        urllib.request.urlopen(urllib.request.Request(_SITES[name], method="HEAD"), timeout=5).close()
    except (OSError, ValueError) as error:
        return f"there is no network to download it ({error})"
    try:
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
    note = f" (only {', '.join(others)} of {name} was found)" if others else ""
    site = _SITES[name].rpartition("/")[0]
    return (
        f"{name} ({split}) is not below {place}{note}, and {reason}. Put {files} from {site} "
        f"into {where}, or {split}.npz with `images` (uint8) and `labels` into {place / name}. To use another folder, "
        "pass root=... or set the environment variable JUMBOT_DATA."
    )
