"""Features of a frozen backbone: extracted once, cached by content, and read from there later.

A sample is identified by the bytes of its file or array row and its input format, a backbone by its layers and weights.
So features are found again in a renamed, moved or partly new folder, and never used for a changed weight or picture.
Several processes may fill and read a cache at once.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import torch
from torch import Tensor, nn

from jumbot._base.files import replacing
from jumbot._base.options import Text
from jumbot._base.progress import Stretch, progress
from jumbot._base.schema import Record
from jumbot.adaptation._networks.backbones import Backbone, Frozen, make_backbone
from jumbot.adaptation._networks.build import check_name
from jumbot.data._content import KEY, content_keys, digest
from jumbot.data._domain import ArraySamples, Domain
from jumbot.data._inputs import InputFormat, scaled
from jumbot.data._readers import MOST, Wait, count_workers, readers
from jumbot.errors import ArgumentError, JumbotError, need

_AHEAD = 2 * MOST  # batches that are read or waited for
_PACKAGES = ("torch", "torchvision", "timm", "efficientnet_lite_pytorch", "jumbot")


def default_cache() -> Path:
    """`features` below $JUMBOT_CACHE, or below `jumbot` in the user's cache folder."""
    own = os.environ.get("JUMBOT_CACHE")
    shared = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return (Path(own) if own else Path(shared) / "jumbot") / "features"


def extract(
    backbone: Backbone | nn.Module,
    domain: Domain,
    cache: str | Path | None = None,
    *,
    batch_size: int = 16,
    device: str | torch.device = "cpu",
    workers: int | None = None,
) -> Domain:
    """`domain` with `backbone(samples)`, rows of float32, instead of its samples; labels and names are kept.

    The samples must have the backbone's size and pixels. With a folder `cache`, samples whose features it holds are not
    computed again, and what is computed is added to it 256 at a time, so that an interrupted call continues where it
    stopped, and several processes that need the same features share the work. Only a few batches of images are in
    memory at once; `workers` processes read them, as in training.

    >>> images = Domain("noise", ArraySamples(np.zeros((5, 8, 8, 3), np.uint8)))
    >>> extract(nn.Sequential(nn.AvgPool2d(8), nn.Flatten()), images).shape
    (3,)
    """
    module = backbone.module if isinstance(backbone, Backbone) else backbone
    if isinstance(backbone, Backbone) and backbone.name != "user":
        module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    if batch_size < 1:
        raise ArgumentError(f"batch_size must be 1 or more, got {batch_size}.")
    if not len(domain):
        raise ArgumentError(f"{domain.name}: contains no samples.")
    with _reading(domain, workers) as read:
        compute = partial(_compute, module, domain, read, batch_size, device)
        if cache is None:
            features, rows = _compute_all(domain, compute), None
        else:
            store = FeatureCache(Path(cache).expanduser() / fingerprint(module))
            features, rows = store.complete(domain, batch_size, compute)
    return domain.with_samples(ArraySamples(features if rows is None else features[rows]))


def fingerprint(module: nn.Module) -> str:
    """40 hexadecimal digits for the layers and weights of a module, and for the code of the user's own layers."""
    if isinstance(module, Frozen):
        module = module.module
    found = hashlib.blake2b(repr(module).encode(), digest_size=20)
    for kind in sorted({type(layer) for layer in module.modules()}, key=lambda kind: kind.__qualname__):
        if kind.__module__.partition(".")[0] not in _PACKAGES:
            found.update(_code(kind))
    for name, tensor in module.state_dict().items():
        found.update(f"{name}{tensor.dtype}{tuple(tensor.shape)}".encode())
        found.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return found.hexdigest()


def _code(kind: type) -> bytes:
    try:
        return inspect.getsource(kind).encode()
    except (OSError, TypeError):  # typed in at a prompt
        return bytes(kind.forward.__code__.co_code)  # type: ignore[attr-defined]


def _compute_all(domain: Domain, compute: Compute) -> np.ndarray:
    with progress(len(domain), f"features of {domain.name}", least=SHARD) as advance:
        parts = []
        for part in compute(np.arange(len(domain))):
            parts.append(part)
            advance(len(part))
    return np.concatenate(parts)


@contextmanager
def _reading(domain: Domain, workers: int | None) -> Iterator[Callable[[np.ndarray], Wait]]:
    """Begin to read rows; by a thread, or by processes."""
    samples = {"images": domain.samples}
    count = count_workers(workers, samples, len(domain))
    if count:
        with readers(samples, count) as submit:
            yield lambda rows: submit("images", rows, None)
        return
    with ThreadPoolExecutor(1) as thread:
        try:
            yield lambda rows: thread.submit(domain.samples.batch, rows).result
        finally:
            thread.shutdown(wait=False, cancel_futures=True)


def _compute(
    module: nn.Module,
    domain: Domain,
    read: Callable[[np.ndarray], Wait],
    batch_size: int,
    device: str | torch.device,
    rows: np.ndarray,
) -> Iterator[np.ndarray]:
    """Features batch by batch; the next batches are read while the backbone works on one."""
    batches = [rows[start : start + batch_size] for start in range(0, len(rows), batch_size)]
    training = [layer for layer in module.modules() if layer.training]
    module.eval().to(device)
    waiting = deque(read(batch) for batch in batches[:_AHEAD])
    try:
        for number, batch in enumerate(batches):
            images = waiting.popleft()()
            if number + _AHEAD < len(batches):
                waiting.append(read(batches[number + _AHEAD]))
            yield _forward(module, domain, batch, images.to(device))
    finally:
        for layer in training:
            layer.training = True


@torch.no_grad()
def _forward(module: nn.Module, domain: Domain, rows: np.ndarray, images: Tensor) -> np.ndarray:
    out = module(images)
    if not isinstance(out, Tensor) or out.ndim != 2 or len(out) != len(images):
        got = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
        raise ArgumentError(
            f"backbone: returns {got} for a batch of shape {tuple(images.shape)}; it must return (batch, features)."
        )
    features = out.float().cpu().numpy()
    bad = np.flatnonzero(~np.isfinite(features).all(1))
    if bad.size:
        row = int(rows[bad[0]])
        name = domain.ids[row] if domain.ids is not None else f"row {row}"
        raise ArgumentError(f"{domain.name}: the backbone's features of {name} are NaN or infinite; check that sample.")
    return features


@dataclass(frozen=True)
class ExtractorFile(Record):
    """The frozen backbone of a model, without its weights."""

    name: str
    weights: Text | None
    fingerprint: str
    format: InputFormat | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_name("name", self.name)


@dataclass(frozen=True)
class Extractor:
    """Images in the backbone's format -> rows of features, kept in a cache by content."""

    backbone: Backbone
    weights: str | None = None
    format: InputFormat | None = None
    """The scale of the features, learned on those of the source."""
    device: str = "cpu"
    workers: int | None = None

    def __call__(self, domain: Domain) -> Domain:
        found = extract(self.backbone, domain, default_cache(), device=self.device, workers=self.workers)
        return found if self.format is None else self.format.apply(found)

    def on_device_of(self, network: nn.Module) -> Extractor:
        """This extractor on the device of `network`, if that is not the CPU."""
        device = next(network.parameters()).device
        return self if device.type == "cpu" else replace(self, device=str(device))

    def scaled_on(self, source: Domain, standardise: str) -> Extractor:
        """This extractor, with the features of `source`, an image domain, brought to one scale."""
        features = replace(self, format=None)(source)
        return replace(self, format=scaled(InputFormat("features", width=features.shape[0]), features, standardise))

    def describe(self) -> ExtractorFile:
        """What a saved model contains of it."""
        return ExtractorFile(self.backbone.name, self.weights, fingerprint(self.backbone.module), self.format)

    @classmethod
    def of(cls, described: ExtractorFile, module: nn.Module | None = None) -> Extractor:
        """The same backbone; other weights with the same name are refused."""
        if module is None and described.name == "user":
            raise ArgumentError("backbone: this model was trained with your own module; pass backbone=that module.")
        weights = described.weights
        backbone = make_backbone(described.name if module is None else module, weights, freeze=True)
        if fingerprint(backbone.module) != described.fingerprint:
            raise ArgumentError(
                f"backbone: {described.name} with weights {weights!r} is not what this model was trained on; its "
                "weights or its code have changed."
            )
        return cls(backbone, weights, format=described.format)


SHARD = 256  # samples per file of the cache, the most that an interruption can lose

Compute = Callable[[np.ndarray], Iterator[np.ndarray]]
"""Rows of a domain -> their features, batch by batch."""


class FeatureCache:
    """Features of one backbone: files of up to 256 samples, each with the keys of its rows, each written atomically.

    Processes that need the same features share the work: one that computes a part holds a lock of the operating system
    for it, which is released when the process ends, however it ends, and the others compute other parts first.  Files
    are written atomically, so without locks the worst that can happen is that a part is computed twice.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def complete(self, domain: Domain, batch_size: int, compute: Compute) -> tuple[np.ndarray, np.ndarray | None]:
        """Features of every different sample of `domain`, and the row of each sample among them."""
        keys, first, rows = np.unique(content_keys(domain.samples), return_index=True, return_inverse=True)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ArgumentError(
                f"cache: {self.folder} cannot be created ({error.strerror}); choose another one."
            ) from error
        found = _Found(self.folder, keys)
        found.look()
        missing = np.flatnonzero(~found.known)
        missing = missing[np.argsort(first[missing])]  # in the order of the files, which is faster on disks
        shard = max(SHARD // batch_size, 1) * batch_size
        parts = [missing[start : start + shard] for start in range(0, len(missing), shard)]
        with progress(len(missing), f"features of {domain.name}", least=SHARD, slow=True) as advance:
            taken = []
            for wait in (False, True):
                for part in parts:
                    with self._claim(keys[part], wait) as mine:
                        if mine:
                            self._fill(found, part, first, compute, advance)
                        else:
                            taken.append(part)
                parts, taken = taken, []
        assert found.features is not None
        return found.features, None if np.array_equal(rows, np.arange(len(rows))) else rows

    def _fill(self, found: _Found, part: np.ndarray, first: np.ndarray, compute: Compute, advance: Stretch) -> None:
        """Compute the samples of a part that no other process has written meanwhile."""
        found.look()
        missing = part[~found.known[part]]
        advance(len(part) - len(missing))
        computed = []
        for batch in compute(first[missing]) if len(missing) else ():
            computed.append(batch)
            advance(len(batch))
        if computed:
            features = np.concatenate(computed)
            self._write(found.keys[missing], features)
            found.add(missing, features)

    @contextmanager
    def _claim(self, keys: np.ndarray, wait: bool) -> Iterator[bool]:
        """Whether this process computes these samples; with `wait`, it does so once no other process does."""
        filelock = need("filelock", "the cache of features", "adapt")
        lock = filelock.FileLock(self.folder / f"{_name(keys)}.lock")
        try:
            lock.acquire(timeout=-1 if wait else 0)
        except filelock.Timeout:
            yield False
            return
        except (OSError, NotImplementedError):  # a file system without locks, or one that cannot be written
            yield True
            return
        try:
            yield True
        finally:
            with suppress(OSError):  # Windows cannot remove an open file, and the folder may be gone
                Path(lock.lock_file).unlink()
            lock.release()

    def _write(self, keys: np.ndarray, features: np.ndarray) -> None:
        """Write a file named by its content, atomically."""
        plain = np.ascontiguousarray(keys).view(np.uint8).reshape(len(keys), KEY.itemsize)
        try:
            with replacing(self.folder / f"{_name(keys)}.npz") as part, part.open("wb") as file:
                np.savez(file, keys=plain, features=features)
        except JumbotError as error:
            raise ArgumentError(f"cache: {error} Choose another one.") from error


class _Found:
    """Which of the sorted `keys` the files of a folder hold, and an array of features with their rows filled in."""

    def __init__(self, folder: Path, keys: np.ndarray) -> None:
        self.folder, self.keys = folder, keys
        self.known = np.zeros(len(keys), bool)
        self.features: np.ndarray | None = None
        self.read: set[str] = set()

    def look(self) -> None:
        """Read the files that have come since the last look."""
        for file in sorted(self.folder.glob("*.npz")):
            if file.name in self.read or not file.is_file():  # reading from a pipe may wait forever
                continue
            self.read.add(file.name)
            try:
                with file.open("rb") as opened, np.load(opened) as shard:
                    held = shard["keys"].view(KEY).reshape(-1)
                    place = np.minimum(np.searchsorted(self.keys, held), len(self.keys) - 1)
                    hit = self.keys[place] == held
                    if hit.any():
                        self.add(place[hit], shard["features"][hit])
            except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
                warnings.warn(f"{file}: is damaged ({error}); recomputing its features.", stacklevel=5)

    def add(self, places: np.ndarray, features: np.ndarray) -> None:
        """Record that these rows are known."""
        if self.features is None:
            self.features = np.empty((len(self.keys), features.shape[1]), np.float32)
        self.features[places] = features
        self.known[places] = True


def _name(keys: np.ndarray) -> str:
    return digest(np.ascontiguousarray(keys).tobytes()).hex()
