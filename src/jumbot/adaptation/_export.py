"""Export: one module from numbers to probabilities, and files that run without jumbot."""

from __future__ import annotations

import copy
import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

import jumbot
from jumbot._base.files import first_line, replacing
from jumbot.adaptation._evaluation.task import Regression
from jumbot.data._augment import crop_transform
from jumbot.data._images import match_channels, resize
from jumbot.data._inputs import InputFormat, Transform
from jumbot.errors import ArgumentError, JumbotError, need

if TYPE_CHECKING:
    from jumbot import Model

FORMATS = (".onnx", ".pt2")
_TRACED = 2  # samples for tracing; the sizes below are used to check the file
_CHECKED = (1, 5)
_ERROR = 1e-4  # of a probability, between engines


class Predictor(nn.Module):
    r"""x -> softmax(logits / temperature + offset): the whole computation of `predict_proba` on numbers, in one module.

    With `units`, (mean, deviation) of the numbers that a regression predicts, it is outputs * deviation + mean
    `(b, outputs)`, numbers in the units of the source.

    x is float32 `(b, d)` rows, `(b, channels, h, w)` pictures in [0, 1] (or bytes), `(b, channels, length)` signals, or
    what the model's own backbone takes.  Missing numbers (NaN) of a table are filled with the source's medians,
    pictures resized, channels matched, views cut and averaged, numbers scaled.  A row with anything but 0 and 1 for a
    category gives NaN, because its features are in the wrong order.

    >>> network = nn.Sequential(nn.Linear(2, 2))
    >>> rows = InputFormat("features", width=2, mean=(1.0, 1.0), factor=2.0)
    >>> Predictor(lambda x: (x, x), rows)(torch.tensor([[1.0, 1.5]])).numpy().round(3)
    array([[0.269, 0.731]], dtype=float32)
    """

    def __init__(
        self,
        network: Any,
        format: InputFormat,
        transform: Transform | None = None,
        backbone: nn.Module | None = None,
        features: InputFormat | None = None,
        temperature: float = 1.0,
        units: tuple[Sequence[float], Sequence[float]] | None = None,
        offset: Sequence[float] | None = None,
    ) -> None:
        super().__init__()
        self.mean: Tensor | None
        self.std: Tensor | None
        self.fill: Tensor | None
        self.coded: Tensor | None
        self.offset: Tensor | None
        mean, std = (None, None) if units is None else units
        constants: dict[str, Any] = {"mean": mean, "std": std, "fill": _fill(format)}
        constants |= {"coded": _coded(format), "offset": offset}
        for name, value in constants.items():
            if value is None:  # torch.export fails if a buffer is None
                setattr(self, name, None)
            else:
                self.register_buffer(name, torch.as_tensor(value), persistent=False)
        self.network, self.backbone = network, backbone
        self.format, self.transform, self.features, self.temperature = format, transform, features, temperature

    def forward(self, x: Tensor) -> Tensor:
        if self.format.kind == "image":
            x = x / 255 if x.dtype == torch.uint8 else x
            x = resize(match_channels(x, self.format.shape[0]), (self.format.shape[1], self.format.shape[2]))
            x = x if self.transform is None else self.transform(x, None)
        elif self.fill is not None:
            x = torch.where(x.isnan(), self.fill, x)
        odd = None if self.coded is None else (self.coded & (x != 0) & (x != 1)).any(-1, keepdim=True)
        x = self.format.scale(x)
        views = x.shape[1] if self.format.kind == "image" and x.ndim == 5 else 0
        x = x.flatten(0, 1) if views else x
        if self.backbone is not None:
            x = self.backbone(x)
            x = x if self.features is None else self.features.scale(x)
        logits: Tensor = self.network(x)[1]
        if odd is not None:
            logits = torch.where(odd, torch.nan, logits)
        if self.mean is not None and self.std is not None:
            return logits * self.std + self.mean
        if views:  # the logarithm of the mean probability over the views
            logits = logits.softmax(-1).unflatten(0, (-1, views)).mean(1).log()
        scores = logits / self.temperature
        scores = scores if self.offset is None else scores + self.offset
        found: Tensor = scores.softmax(-1)
        return found


def _fill(format: InputFormat) -> Tensor | None:
    """What replaces a missing number of each feature: the source's median, and of a category none."""
    if format.columns is None:
        return None
    fill = [number for column in format.columns.columns for number in column.fills]
    return None if None in fill else torch.tensor(fill, dtype=torch.float32)


def _coded(format: InputFormat) -> Tensor | None:
    """Which features encode categories, if any."""
    if format.columns is None:
        return None
    coded = [c.categories is not None for c in format.columns.columns for _ in c.features]
    return torch.tensor(coded) if any(coded) else None


def make_predictor(model: Model) -> Predictor:
    """The `Predictor` of a model, with a copy of the weights, in evaluation mode on the CPU."""
    extractor = model.extractor
    backbone = None if extractor is None else extractor.backbone.module
    predictor = Predictor(
        model.network,
        model.input,
        crop_transform(model.crops),
        backbone,
        None if extractor is None else extractor.format,
        model.temperature,
        (model.task.mean, model.task.std) if isinstance(model.task, Regression) else None,
        model.offset,
    )
    own = copy.deepcopy(predictor).cpu().eval()
    return own.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]


def describe(model: Model) -> dict[str, str]:
    """The description of a file: classes, input and output."""
    format, columns = model.input, model.input.columns
    shape = ", ".join(map(str, ("batch", *format.shape)))
    inputs = {
        "image": f"({shape}) float32 RGB images in [0, 1], decoded and resized",
        "features": f"({shape}) float32 rows of unscaled numbers",
        "signal": f"({shape}) float32 unscaled signals",
        "raw": f"({shape}) {'int64' if format.whole else 'float32'}",
    }[format.kind]
    metadata = {
        "jumbot": jumbot.__version__,
        "classes": json.dumps(list(model.classes)),
        "method": model.method["name"],
    }
    if columns is not None:
        inputs += "; an encoded matrix, a column for each of `features` in that order"
        if _coded(format) is not None:
            inputs += (
                "; a feature NAME=CATEGORY is 1 where the column NAME has that category and 0 elsewhere, and a row "
                "with any other number there gives NaN"
            )
        if any(column.dates or column.text for column in columns.columns):
            inputs += (
                "; of dates, NAME: weekday counts from Monday, 0, and NAME: days from the source's first date; "
                "features of dates and texts are best made by jumbot: load(run).input.columns.encode"
            )
        if _fill(format) is not None:
            inputs += "; NaN where a number is missing"
        metadata["features"] = json.dumps(list(columns.features))
    output = f"(batch, {model.task.outputs}) float32 " + (
        "probabilities of the classes in their order" if model.classes else "numbers, in the units of the source"
    )
    return {**metadata, "input": inputs, "output": output}


def export(model: Model, file: str | Path) -> Path:
    """Write the model's `Predictor` as ONNX (`.onnx`) or by `torch.export` (`.pt2`), for batches of any size.

    The file is tried before it is saved: probabilities that differ from the model's are an error.
    """
    path = Path(file)
    if path.suffix not in FORMATS:
        raise ArgumentError(f"file: got {path.name!r}; the name must end in {' or '.join(FORMATS)}.")
    if path.suffix == ".onnx":
        for package in ("onnx", "onnxscript", "onnxruntime"):
            need(package, f"export: {path.name}", "export")
    predictor, metadata = make_predictor(model), describe(model)
    batch = torch.export.Dim("batch", min=1)
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")  # of the tracers about themselves
            program = torch.export.export(predictor, (example(model, _TRACED),), dynamic_shapes=({0: batch},))
    except Exception as error:  # tracing runs the user's backbone, which may raise anything
        why = first_line(error)
        raise ArgumentError(f"export: the network cannot be traced for batches of any size: {why}") from error
    with replacing(path) as part:
        if path.suffix == ".pt2":
            with part.open("wb") as handle:
                torch.export.save(program, handle, extra_files={"jumbot.json": json.dumps(metadata)})
        else:
            numbers = isinstance(model.task, Regression)
            _write_onnx(program, batch, part, metadata, "numbers" if numbers else "probabilities")
        run = _run_onnx(part) if path.suffix == ".onnx" else _run_pt2(part)
        for size in _CHECKED:
            x = example(model, size)
            with torch.no_grad():
                off = float(((run(x) - predictor(x)) / (1.0 if predictor.mean is None else predictor.std)).abs().max())
            if not off <= _ERROR:
                raise JumbotError(
                    f"export: {path.name} gives outputs that differ from the model's by {off:.2g}; not written."
                )
    return path


def example(model: Model, size: int) -> Tensor:
    """Random input of that many samples, in the size of real ones."""
    format = model.input
    generator = torch.Generator().manual_seed(size)
    if format.whole:
        return torch.zeros(size, *format.shape, dtype=torch.int64)
    if format.kind == "image":
        return torch.rand(size, *format.shape, generator=generator)
    x = torch.randn(size, *format.shape, generator=generator)
    coded = _coded(format)
    if format.mean is not None:
        shape = (-1, 1) if format.kind == "signal" else (-1,)
        y = x / format.factor if format.std is None else x * torch.tensor(format.std).reshape(shape)
        y = y + torch.tensor(format.mean).reshape(shape)
    else:
        y = x
    return y if coded is None else torch.where(coded, (x > 0).float(), y)


def _write_onnx(program: Any, batch: Any, file: Path, metadata: dict[str, str], output: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made: Any = torch.onnx.export(
            program,
            dynamo=True,
            input_names=["input"],
            output_names=[output],
            verbose=False,
            dynamic_shapes=({0: batch},),
        )
    made.model.metadata_props.update(metadata)
    made.save(str(file), external_data=False)


def _run_onnx(file: Path) -> Any:
    session = need("onnxruntime", "export", "export").InferenceSession(str(file), providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return lambda x: torch.from_numpy(session.run(None, {name: x.numpy()})[0])


def _run_pt2(file: Path) -> Any:
    with file.open("rb") as handle:
        return torch.export.load(handle).module()
