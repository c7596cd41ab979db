"""Images as tensors: decoding of files, size, grey and colour."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import interpolate

from jumbot.data._domain import Samples, even_rows
from jumbot.errors import ArgumentError, MissingPackageError, need

_THREADS = 4
_LOOKED_AT = 32
_ORIENTATION = 274  # EXIF tag; 5 ... 8 lie on their side
_WIDE, _BITS = 65535, (10, 12, 14)  # white in 16 bits, and what cameras and scanners may leave in them
_LUMA = (0.299, 0.587, 0.114)  # ITU-R BT.601, as PIL's conversion to "L"


def resize(images: Tensor, size: tuple[int, int]) -> Tensor:
    """`(b, c, h, w)` images at another size, bilinear, with antialiasing where they shrink; the aspect is not kept.

    >>> resize(torch.ones(1, 1, 28, 28), (16, 16)).shape
    torch.Size([1, 1, 16, 16])
    """
    height, width = images.shape[-2:]
    if (height, width) == tuple(size):
        return images
    shrinks = size[0] < height or size[1] < width
    return interpolate(images, size=tuple(size), mode="bilinear", align_corners=False, antialias=shrinks)


def match_channels(images: Tensor, channels: int) -> Tensor:
    """`(..., c, h, w)` images, grey to more by repetition, colour to grey by luma, .299 R + .587 G + .114 B."""
    *before, own, height, width = images.shape
    if own == channels:
        return images
    if own == 1:
        return images.expand(*before, channels, height, width)
    return (images * images.new_tensor(_LUMA)[:, None, None]).sum(-3, keepdim=True)


def read_images(
    samples: Samples,
    indices: np.ndarray,
    size: tuple[int, int],
    channels: int,
    rng: np.random.Generator | None = None,
) -> Tensor:
    """float32 `(b, channels, *size)` in [0, 1]: files are decoded at that size, arrays are resized."""
    if isinstance(samples, PictureSamples):
        return samples.read(indices, size, channels)
    return resize(match_channels(samples.batch(indices, rng), channels), size)


def decode(path: str | Path, size: tuple[int, int] | None = None, channels: int = 3) -> np.ndarray:
    """`(h, w, channels)` bytes of an image file, upright by its EXIF orientation, resized to `size` = (h, w) if given.

    Palettes, CMYK, 16-bit grey and fractions are converted; transparent pixels become white.
    """
    with _pil().open(path) as image:
        if size is not None:
            image.draft(None, (2 * max(size), 2 * max(size)))  # JPEG: skip detail that the resizing would drop
        return picture_bytes(image, size, channels)


def picture_bytes(image: Any, size: tuple[int, int] | None = None, channels: int = 3) -> np.ndarray:
    """`decode` of a PIL image that is open already."""
    picture = _converted(_pil("ImageOps").exif_transpose(image), "L" if channels == 1 else "RGB")
    if size is not None and picture.size != (size[1], size[0]):
        picture = picture.resize((size[1], size[0]), _pil().Resampling.BILINEAR)
    array = np.asarray(picture, dtype=np.uint8)
    return array[:, :, None] if array.ndim == 2 else array


def picture_facts(image: Any) -> tuple[int, int, bool]:
    """Height and width when upright, and whether it is grey."""
    width, height = image.size
    if image.getexif().get(_ORIENTATION, 1) >= 5:
        width, height = height, width
    return height, width, image.mode in ("1", "L", "LA") or image.mode.startswith("I")


def _converted(image: Any, mode: str) -> Any:
    """In bytes of this mode, on white where it is transparent."""
    pil = _pil()
    if image.mode.startswith("I") or image.mode == "F":
        values, most = np.asarray(image), 255 if image.mode == "F" else _WIDE
        if not (values.min() >= 0 and values.max() <= most):  # NaN is neither
            kind = "floating-point" if image.mode == "F" else "whole-number"
            raise ValueError(f"{kind} pixels outside 0 ... {most}")
        image = pil.fromarray((values / (_white(values) / 255)).round().astype(np.uint8))
    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        image = image.convert("RGBA")
        image = pil.alpha_composite(pil.new("RGBA", image.size, (255, 255, 255, 255)), image)
    return image.convert(mode)


def _white(values: np.ndarray) -> int:
    """What is white in a picture of fractions (1 or 255) or of many bits (255 or 65535), by the values that it has."""
    low, high = (1, 255) if values.dtype.kind == "f" else (255, _WIDE)
    return low if values.max() <= low else high


def _brightest(image: Any) -> tuple[int, float] | None:
    """The white level of a picture with more than 8 bits, and its largest value; None for 8 bits, or black."""
    deep = image.mode.startswith("I") or image.mode == "F"
    if not deep and not any(";16" in str(tile[3]) for tile in getattr(image, "tile", ())):
        return None
    values = np.asarray(image)
    if not values.any():
        return None
    # colours of 16 bits come from PIL without their lower byte
    return (_white(values), float(values.max())) if deep else (_WIDE, 256.0 * values.max() + 255)


def doubtful_white(samples: PictureSamples) -> str | None:
    """A sentence on images whose white level is doubtful, judged by an even sample of them.

    >>> import PIL.Image
    >>> doubtful_white(OpenSamples([PIL.Image.fromarray(np.full((8, 6), 4000, np.uint16))]))
    'contains 16-bit images with values up to 4000, although 65535 is white: almost black. If they have 12 bits, ...
    """
    rows = even_rows(len(samples), _LOOKED_AT).tolist()
    found = [fact for fact in map(samples.brightest, rows) if fact is not None]
    whites, most = sorted({white for white, _ in found}), max((most for _, most in found), default=0)
    if len(whites) > 1:
        return (
            f"contains images with values up to {max(most for white, most in found if white == whites[0]):g}, read "
            f"with {whites[0]} as white, and others up to {most:g}, read with {whites[-1]} as white; save all of "
            f"them as bytes"
        )
    bits = next((bits for bits in _BITS if most < 2**bits), None)
    if whites != [_WIDE] or bits is None:
        return None
    return (
        f"contains 16-bit images with values up to {most:g}, although {_WIDE} is white: almost black. If they have "
        f"{bits} bits, multiply the values by {2 ** (16 - bits)} and save them again, for predictions too"
    )


class PictureSamples:
    """Pictures of any size, each read by one of a few threads when a batch needs it; none is kept in memory.

    `size` is (h, w) if all agree and None otherwise, `largest` the greatest height and width; `channels` is 1 if all
    are grey.
    """

    def __init__(self, sizes: np.ndarray, grey: np.ndarray) -> None:
        self._sizes, self._grey = sizes, grey
        same = bool((sizes == sizes[0]).all())
        self.size: tuple[int, int] | None = (int(sizes[0, 0]), int(sizes[0, 1])) if same else None
        self.largest = (int(sizes[:, 0].max()), int(sizes[:, 1].max()))
        self.channels = 1 if bool(grey.all()) else 3
        self.digests = np.zeros(len(sizes), "V20")
        """The digests that `_content` has computed, so that no file is read twice for them."""

    def __len__(self) -> int:
        raise NotImplementedError

    def picture(self, index: int, size: tuple[int, int], channels: int) -> np.ndarray:
        """`(*size, channels)` bytes."""
        raise NotImplementedError

    def brightest(self, index: int) -> tuple[int, float] | None:
        """Of a picture of more than bytes: the assumed white level, and its largest value."""
        raise NotImplementedError

    def content(self, index: int) -> bytes:
        """Bytes that identify the content of a picture."""
        raise NotImplementedError

    @property
    def shape(self) -> tuple[int, ...]:
        if self.size is None:
            raise ArgumentError("data: the images differ in size; `prepare` brings them to one.")
        return (self.channels, *self.size)

    def read(self, indices: np.ndarray, size: tuple[int, int], channels: int) -> Tensor:
        wanted = [int(i) for i in indices]
        with ThreadPoolExecutor(min(_THREADS, max(len(wanted), 1))) as pool:
            images = list(pool.map(lambda i: self.picture(i, size, channels), wanted))
        stacked = np.stack(images) if images else np.empty((0, *size, channels), np.uint8)
        return torch.from_numpy(stacked.transpose(0, 3, 1, 2).astype(np.float32)) / 255

    def batch(self, indices: np.ndarray, rng: np.random.Generator | None = None) -> Tensor:
        return self.read(indices, (self.shape[1], self.shape[2]), self.channels)


class FileSamples(PictureSamples):
    """Images in files, decoded at the batch."""

    def __init__(self, paths: list[str], sizes: np.ndarray, grey: np.ndarray) -> None:
        if not paths:
            raise ArgumentError("data: no image files.")
        super().__init__(sizes, grey)
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def subset(self, indices: np.ndarray) -> FileSamples:
        return FileSamples([self.paths[i] for i in indices], self._sizes[indices], self._grey[indices])

    def picture(self, index: int, size: tuple[int, int], channels: int) -> np.ndarray:
        with _named(self.paths[index]):
            return decode(self.paths[index], size, channels)

    def brightest(self, index: int) -> tuple[int, float] | None:
        with _named(self.paths[index]), _pil().open(self.paths[index]) as image:
            return _brightest(image)

    def content(self, index: int) -> bytes:
        return Path(self.paths[index]).read_bytes()


class OpenSamples(PictureSamples):
    """PIL images: a list, or anything else that returns one for an index.

    >>> import PIL.Image
    >>> OpenSamples([PIL.Image.new("L", (8, 6))]).shape
    (1, 6, 8)
    """

    def __init__(self, images: Any, rows: np.ndarray | None = None) -> None:
        self.images, self.rows = images, np.arange(len(images)) if rows is None else rows
        # of a data set that decodes its pictures only a few are read; different sizes are handled in each batch
        some = self.rows[even_rows(len(self.rows), _LOOKED_AT)]
        facts = [picture_facts(images[int(i)]) for i in (self.rows if isinstance(images, list) else some)]
        super().__init__(np.array([fact[:2] for fact in facts]), np.array([fact[2] for fact in facts]))

    def __len__(self) -> int:
        return len(self.rows)

    def subset(self, indices: np.ndarray) -> OpenSamples:
        return OpenSamples(self.images, self.rows[indices])

    def picture(self, index: int, size: tuple[int, int], channels: int) -> np.ndarray:
        try:
            return picture_bytes(self.images[int(self.rows[index])], size, channels)
        except ValueError as error:
            raise ArgumentError(f"data: image {self.rows[index]}: {error}.") from error

    def brightest(self, index: int) -> tuple[int, float] | None:
        return _brightest(self.images[int(self.rows[index])])

    def content(self, index: int) -> bytes:
        image = _pil("ImageOps").exif_transpose(self.images[int(self.rows[index])])
        return f"{image.mode}{image.size}{image.getpalette()}".encode() + image.tobytes()


@contextmanager
def _named(path: str) -> Iterator[None]:
    """Errors while reading a file name it."""
    try:
        yield
    except MissingPackageError:
        raise
    except Exception as error:  # with a damaged file PIL may raise almost anything
        raise ArgumentError(
            f"{path}: cannot be read as an image ({error}); remove it or use corrupt='skip'."
        ) from error


def is_picture(value: Any) -> bool:
    """Whether `value` is a PIL image; PIL is not imported."""
    return any(kind.__module__ == "PIL.Image" and kind.__name__ == "Image" for kind in type(value).__mro__)


def _pil(module: str = "Image") -> Any:
    return need(f"PIL.{module}", "reading image files", "adapt")
