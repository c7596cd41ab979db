"""Folders of images: `class/name.jpg`, flat folders without labels, and lists of `path label` lines."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from jumbot._base.options import check_word
from jumbot.data._column_kinds import few
from jumbot.data._domain import Domain
from jumbot.data._images import FileSamples, _pil, decode, picture_facts
from jumbot.data._labels import encode_labels
from jumbot.data._remarks import remark
from jumbot.data._roles import ALL_DOMAINS, NO_DOMAINS
from jumbot.errors import ArgumentError, MissingPackageError

ENDINGS = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
UNREAD = (".heic", ".heif", ".avif", ".jfif", ".jp2", ".jxl", ".dng", ".cr2", ".nef", ".arw", ".raw", ".dcm", ".psd")
"""Endings of unsupported images, which are left out with a warning, because a class may have no other files."""
_TAIL = 64
_DEEP = 0.9  # of the files, of which some may be a preview or a stray one


def load_folder(
    folder: str | Path, *, name: str | None = None, corrupt: str = "refuse", domain: str | None = None
) -> Domain:
    """Images below a folder; the first folder on the way to a file is its class, files directly in `folder` have none.

    Hidden files, and files whose endings are not those of images, are skipped, with a warning if they seem to be
    images in another format.

    Parameters
    ----------
    folder : path
        The folder, `class/name.jpg`.  A folder of domains, `camera/class/name.jpg`, raises an error; choose one with
        `domain`.
    name : str, optional
        What messages call it; by default the name of the folder.
    corrupt : {"refuse", "skip"}, default "refuse"
        Whether image files that cannot be read are an error or a warning.
    domain : str, optional
        The domain to use of a folder of domains; "none" means that the folders are classes.

    Returns
    -------
    Domain
        The images, decoded when they are used.

    Raises
    ------
    jumbot.ArgumentError
        If the folder does not exist, or contains no images, several domains, or damaged images.

    Examples
    --------
    >>> import tempfile, PIL.Image
    >>> with tempfile.TemporaryDirectory() as pets:
    ...     for kind in ("cat", "dog"):
    ...         (Path(pets) / kind).mkdir()
    ...         PIL.Image.new("RGB", (8, 6)).save(Path(pets) / kind / "1.png")
    ...     domain = load_folder(pets)
    >>> domain.classes, domain.labels.tolist(), domain.shape, domain.ids
    (('cat', 'dog'), [0, 1], (3, 6, 8), ['cat/1.png', 'dog/1.png'])
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise ArgumentError(f"{folder}: does not exist.")
    if domain is not None and domain != NO_DOMAINS:
        if not (folder / domain).is_dir():
            known = ", ".join(sorted(f.name for f in folder.iterdir() if f.is_dir())) or "none"
            raise ArgumentError(f"{folder}: domain: got {domain!r}; the folders are {known}.")
        folder = folder / domain
    files = images_below(folder)
    if unread := images_below(folder, UNREAD):
        remark(
            f"{folder}: {len(unread)} files ({few(unread, 3)}) have unsupported formats and are left out; convert "
            f"them, e.g. to .jpg.",
            stacklevel=3,
        )
    if not files:
        raise ArgumentError(f"{folder}: contains no images ({', '.join(ENDINGS)}), not even in its folders.")
    if domain != NO_DOMAINS and (domains := domains_among(files)):
        classes = sorted({file.split("/")[1] for file in files})
        raise ArgumentError(
            f"{folder}: looks like a folder of domains ({few(domains)}) with the classes {few(classes)}. Choose one: "
            f"{folder / domains[0]}, or domain={domains[0]!r} (--domain {domains[0]}); domain={ALL_DOMAINS!r} makes "
            f"each a separate source. If {few(domains, 2)} are the classes, pass domain={NO_DOMAINS!r} (--domain "
            f"{NO_DOMAINS})."
        )
    kinds = [file.split("/")[0] if "/" in file else None for file in files]
    return _domain(folder, files, kinds, name or folder.name, corrupt)


def load_files(paths: Sequence[str | Path], *, name: str = "data", corrupt: str = "refuse") -> Domain:
    """Image files by their paths, without labels; the paths are their ids."""
    absent = [str(path) for path in paths if not Path(path).is_file()]
    if absent:
        raise ArgumentError(f"{name}: {len(absent)} of {len(paths)} files do not exist; the first is {absent[0]}.")
    other = [str(path) for path in paths if not str(path).lower().endswith(ENDINGS)]
    if other:
        raise ArgumentError(f"{name}: a list of files must contain images ({', '.join(ENDINGS)}), got {other[0]}.")
    return _domain(Path(), [str(path) for path in paths], [None] * len(paths), name, corrupt)


def domains_among(files: Sequence[str]) -> list[str]:
    """Folders that seem to be domains: nearly all files lie two folders deep, and most folders of the second level come
    more than once.

    >>> domains_among(["camA/mug/1.jpg", "camA/pen/1.jpg", "camB/mug/1.jpg", "camB/pen/1.jpg"])
    ['camA', 'camB']
    >>> domains_among(["mug/camA/1.jpg", "pen/1.jpg"])
    []
    """
    deep = [file for file in files if file.count("/") >= 2]
    if len(deep) < _DEEP * len(files):
        return []
    pairs = {tuple(file.split("/")[:2]) for file in deep}
    count = Counter(inner for _, inner in pairs)
    repeated = sum(times > 1 for times in count.values())
    return sorted({outer for outer, _ in pairs}) if repeated >= 2 and 2 * repeated >= len(count) else []


def from_list(
    file: str | Path, root: str | Path | None = None, *, name: str | None = None, corrupt: str = "refuse"
) -> Domain:
    """Images named by the lines of a text file, `path label` or `path`, as Office-Home and VisDA publish them.

    The label is the last word of a line, unless the whole line is a path; empty lines and lines that begin with # are
    skipped.

    Parameters
    ----------
    file : path
        The text file.
    root : path, optional
        The folder that paths are relative to; by default that of the list.
    name : str, optional
        What messages call it; by default the name of the file.
    corrupt : {"refuse", "skip"}, default "refuse"
        Whether image files that cannot be read are an error or a warning.

    Returns
    -------
    Domain
        The images, decoded when they are used.

    Raises
    ------
    jumbot.ArgumentError
        If the file does not exist, or an image in it is missing or damaged.

    Examples
    --------
    >>> import tempfile, PIL.Image
    >>> with tempfile.TemporaryDirectory() as root:
    ...     PIL.Image.new("RGB", (8, 6)).save(Path(root) / "a.png")
    ...     _ = (Path(root) / "list.txt").write_text("a.png 7")
    ...     from_list(Path(root) / "list.txt").classes
    ('7',)
    """
    file = Path(file)
    if not file.is_file():
        raise ArgumentError(f"{file}: does not exist.")
    root = Path(root) if root is not None else file.parent
    files: list[str] = []
    labels: list[str | None] = []
    for number, line in enumerate(file.read_text(encoding="utf-8-sig").splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        path, _, label = line.rpartition(" ") if " " in line else line.rpartition("\t")
        if path and (root / path.strip()).is_file():
            files.append(path.strip())
            labels.append(label)
        elif (root / line).is_file():
            files.append(line)
            labels.append(None)
        else:
            raise ArgumentError(f"{file}: line {number}: there is no {root / (path or line)}; pass the folder as root.")
    if not files:
        raise ArgumentError(f"{file}: lists no images.")
    return _domain(root, files, labels, name or file.stem, corrupt)


def images_below(folder: Path, endings: tuple[str, ...] = ENDINGS) -> list[str]:
    """Paths relative to `folder`, with forward slashes, sorted; links are followed, each folder once."""
    found: list[str] = []
    seen: set[str] = set()
    for place, folders, files in os.walk(folder, onerror=_refuse, followlinks=True):
        real = os.path.realpath(place)
        folders[:] = sorted(f for f in folders if not f.startswith((".", "__MACOSX")) and real not in seen)
        if real in seen:
            continue
        seen.add(real)
        found += [
            (Path(place) / file).relative_to(folder).as_posix()
            for file in files
            if file.lower().endswith(endings) and not file.startswith(".")
        ]
    return sorted(found)


def _refuse(error: OSError) -> None:
    raise ArgumentError(f"{error.filename}: the folder cannot be read ({error.strerror}).") from error


def _domain(root: Path, files: list[str], kinds: Sequence[str | None], name: str, corrupt: str) -> Domain:
    check_word("corrupt", corrupt, ("refuse", "skip"))
    paths = [str(root / file) for file in files]
    with ThreadPoolExecutor(4) as pool:
        facts = list(pool.map(_facts, paths))
    bad = [f"{file} ({fact})" for file, fact in zip(files, facts, strict=True) if isinstance(fact, str)]
    if bad:
        listed = ", ".join(bad[:5]) + (", ..." if len(bad) > 5 else "")
        message = f"{root}: {len(bad)} of {len(files)} image files cannot be read: {listed}"
        if corrupt == "refuse" or len(bad) == len(files):
            raise ArgumentError(f"{message}; remove them, or leave them out with corrupt='skip' (--corrupt skip).")
        remark(f"{message}; they are left out.", stacklevel=4)
    kept = [i for i, fact in enumerate(facts) if not isinstance(fact, str)]
    known = [fact for fact in facts if not isinstance(fact, str)]
    samples = FileSamples(
        [paths[i] for i in kept], np.array([fact[:2] for fact in known]), np.array([fact[2] for fact in known])
    )
    labels, classes = encode_labels([kinds[i] for i in kept], name)
    return Domain(name, samples, labels if classes else None, classes, [files[i] for i in kept])


def _facts(path: str) -> tuple[int, int, bool] | str:
    """Height, width and whether it is grey; or why not, if the file is not a complete image.

    The head of a file is read quickly and shows everything except whether the end is there; so a JPEG or PNG without
    its end mark, and every other format, is decoded as a whole.
    """
    try:
        if not os.path.isfile(path):  # reading from a pipe may wait forever
            return "is not a regular file" if os.path.exists(path) else "is a broken link"
        with _pil().open(path) as image:
            facts = picture_facts(image)
            kind = image.format
        with open(path, "rb") as file:
            file.seek(max(os.path.getsize(path) - _TAIL, 0))
            tail = file.read().rstrip(b"\0\r\n")
        mark = {"JPEG": b"\xff\xd9", "PNG": b"IEND\xaeB`\x82"}.get(kind or "")
        if mark is None or not tail.endswith(mark):
            decode(path)
    except MissingPackageError:
        raise
    except Exception as error:  # with a damaged file PIL may raise almost anything: struct.error, KeyError, SyntaxError
        return str(error).replace(path, "").strip(" :'") or type(error).__name__
    return facts
