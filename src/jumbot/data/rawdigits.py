"""The files in which USPS, MNIST and SVHN are published: LIBSVM text, idx, MATLAB."""

from __future__ import annotations

import bz2
import gzip
import zlib
from pathlib import Path

import numpy as np

from jumbot.errors import ArgumentError

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
                raise ArgumentError(f"{present[0]}: cannot be read ({error}); fetch it anew.") from error
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
        raise ValueError("it is no idx file of bytes")
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
