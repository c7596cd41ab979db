"""Features of a frozen backbone: extracted once, kept in a cache by content, and read from there ever after.

A sample is known by the bytes of its file or array row together with its input format, a backbone by its layers and
weights. So a renamed, moved or partly new folder finds what is known of it, and a changed weight or picture never finds
what belongs to another.
"""

from __future__ import annotations

import hashlib
import inspect
import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from jumbot.adaptation.networks.backbones import Backbone, Frozen
from jumbot.adaptation.networks.feature_cache import SHARD, Compute, FeatureCache
from jumbot.data.domain import ArraySamples, Domain
from jumbot.data.readers import MOST, Wait, count_workers, readers
from jumbot.errors import ArgumentError
from jumbot.minibatch.progress import progress

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
    """`domain` with `backbone(samples)`, rows of float32, in place of its samples; labels and names stay.

    The samples must have the backbone's size and pixels. With a folder `cache`, samples whose features it holds are not
    computed again, and what is computed is added to it 256 at a time, so that an interrupted call goes on where it
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
        raise ArgumentError(f"batch_size: {batch_size} came in; it must be 1 or more.")
    if not len(domain):
        raise ArgumentError(f"{domain.name}: holds no samples.")
    with _reading(domain, workers) as read:
        compute = partial(_compute, module, domain, read, batch_size, device)
        if cache is None:
            features, rows = _compute_all(domain, compute), None
        else:
            store = FeatureCache(Path(cache).expanduser() / fingerprint(module))
            features, rows = store.complete(domain, batch_size, compute)
    return domain.with_samples(ArraySamples(features if rows is None else features[rows]))


def fingerprint(module: nn.Module) -> str:
    """40 hexadecimal digits for the layers and weights of a module, and for the code of layers that are the user's."""
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
    module: nn.Module, domain: Domain, read: Callable[[np.ndarray], Wait], batch_size: int, device: str | torch.device,
    rows: np.ndarray,
) -> Iterator[np.ndarray]:  # fmt: skip
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
