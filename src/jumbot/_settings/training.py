"""What can be set in a run besides its method: training, network, inputs; each for function, command and record."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from jumbot._base.options import Bounds, Count, Options, Positive, Seed, Share, Weight, Whole, Width
from jumbot._settings.names import check_backbone, check_weights
from jumbot.errors import ArgumentError

Tracker = Literal["tensorboard", "wandb", "mlflow", "comet_ml", "aim", "clearml", "dvclive", "swanlab", "trackio"]
Rule = Literal["last", "entropy", "infomax", "snd", "smoothness", "source_validation", "transport", "oracle"]
_EPOCHS, FEWEST, _MOST = 10, 200, 1000  # of a run without a given length


@dataclass(frozen=True)
class Training(Options):
    """Length, optimiser and records of a training run."""

    batch_size: Annotated[int, Bounds(at_least=1, at_most=2**20)] = 50
    """Number of samples of each domain in a minibatch."""
    sampler: Literal["stratified", "shuffled"] = "stratified"
    """How source minibatches are drawn: "stratified" (the same number of each class) or "shuffled" (passes over all
    samples); by default as published for the method."""
    source_epochs: Whole = 0
    """Epochs on the source alone before adaptation."""
    epochs: Count | None = None
    """Epochs of adaptation; an epoch is floor(source samples / batch_size) steps."""
    steps: Count | None = None
    """Steps of adaptation, instead of epochs; by default 10 epochs, but at least 200 and at most 1,000 steps."""
    source_steps: Whole | None = None
    """Steps on the source alone, instead of source_epochs."""
    optimizer: Literal["adam", "adamw", "sgd"] = "sgd"
    """Adam, Adam with decoupled weight decay ("adamw"), or SGD with Nesterov momentum .9."""
    learning_rate: Positive = 0.01
    """Learning rate of the new layers."""
    backbone_rate: Weight = 0.1
    """Learning rate of a pretrained backbone, relative to learning_rate."""
    schedule: Literal["constant", "inverse", "flat-cosine"] = "inverse"
    """"inverse" multiplies the rate by (1 + 10 p)^-.75 with p = step / schedule_steps; "flat-cosine" keeps it constant
    for half of the steps and then lowers it to 0 along a cosine."""
    schedule_steps: Count | None = None
    """Number of steps after which p = 1 (the schedule continues beyond); by default the steps of adaptation."""
    weight_decay: Weight = 0.001
    """Weight decay: decoupled for AdamW, an L2 penalty for SGD and Adam. Default for Adam: 0, unless the method's
    authors use another."""
    k: Annotated[int, Bounds(at_least=1, at_most=2**20)] = 1
    """Number of pairs of minibatches averaged in a step: the paper's k, for one process."""
    global_plan: bool = False
    """With several processes, join their minibatches into one problem instead of averaging over them. No effect with
    one process."""
    seed: Seed = 0
    """Random seed."""
    select: Rule = "last"
    """The rule that selects the model: "last", or the best by a label-free score: entropy, infomax, snd,
    source_validation or transport for classes; smoothness, source_validation or transport for numbers. "oracle" uses
    target labels, and every output says so."""
    label_loss: Literal["squared", "huber"] | None = None
    """Loss for numbers, in standard deviations of the source's: "squared" (the default) or "huber", which is less
    sensitive to outliers."""
    validation: Share = 0.0
    """Fraction of the source held out for the score source_validation."""
    evaluate_every: Whole | None = None
    """Steps between evaluations; by default an epoch, and at least 10 steps. 0: none."""
    evaluate_samples: Count | None = None
    """Number of samples for evaluations during training; the last evaluation uses all samples."""
    checkpoint_every: Count | None = None
    """Steps between checkpoints; by default one checkpoint per minute."""
    mixed_precision: Literal["no", "fp16", "bf16"] = "no"
    """Autocast for the network; the solver uses float32 and float64."""
    batch_norm: Literal["running", "target"] = "running"
    """"target": re-estimate the means and variances of batch norms on the whole target after training; "running": keep
    the running means over source and target minibatches."""
    device: str = "auto"
    """Where to train: auto, cpu, cuda, cuda:1, mps."""
    workers: Annotated[int, Bounds(at_least=0, at_most=64)] | None = None
    """Number of processes that read image files ahead (0: a thread); by default half of the cores less one, at most 4,
    and 0 for few images and for data in memory. Results do not depend on it."""
    trackers: tuple[Tracker, ...] = ()
    """Also send settings and curves to these trackers, through accelerate: tensorboard (into the run folder), wandb,
    mlflow, comet_ml, aim, clearml, dvclive, swanlab, trackio."""
    tensorboard: bool = False
    """The same as --trackers tensorboard."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not re.fullmatch(r"auto|cpu|mps|cuda(:\d+)?", self.device):
            raise ArgumentError(f"device: {self.device!r} is not known; use auto, cpu, cuda, cuda:N or mps.")
        if self.select != "last" and self.evaluate_every == 0:
            raise ArgumentError(
                f"evaluate_every: got 0, but select={self.select!r} chooses among evaluations; pass a number above "
                "0, or select='last'."
            )

    @property
    def tracked_by(self) -> tuple[str, ...]:
        """Each tracker once."""
        return tuple(dict.fromkeys((*self.trackers, *(["tensorboard"] if self.tensorboard else []))))

    def lengths(self, samples: int) -> tuple[int, int, int]:
        """(steps per epoch, steps on the source alone, steps of adaptation) for a source of that many samples."""
        epoch = max(1, samples // self.batch_size)
        source = self.source_epochs * epoch if self.source_steps is None else self.source_steps
        if self.steps is not None:
            return epoch, source, self.steps
        if self.epochs is not None:
            return epoch, source, epoch * self.epochs
        return epoch, source, min(max(_EPOCHS * epoch, FEWEST), _MOST)


@dataclass(frozen=True)
class NetworkOptions(Options):
    """Which network to train."""

    backbone: str | None = None
    """"table" (rows of numbers), "digits" (small images), "signal" (signals), or a pretrained one for photographs:
    "efficientnet-lite0", "resnet50", ..., "timm:NAME"; by default chosen from the data."""
    features: Width | None = None
    """Width of the embedding; by default 128 for digits and signals, 256 otherwise."""
    hidden: tuple[Width, ...] = ()
    """Widths of the hidden ReLU layers of the network for tables."""
    dropout: Share = 0.0
    """Dropout rate of the hidden layers of the network for tables; with `bins`, inputs are dropped too, fewer the more
    rows the source has."""
    bins: Annotated[int, Bounds(at_least=0, at_most=256)] = 0
    """Number of quantile bins of the source in which the network for tables sees each number, in addition to its
    robustly scaled value, whatever `standardise` is. 0 (the default with standardise="none"): only the numbers."""
    rank: Annotated[int, Bounds(at_least=0, at_most=2**14)] = 0
    """Rank of a truncated SVD of the source for wide rows, such as word counts; 0: none."""
    weights: str | None = None
    """Weights of a pretrained backbone: a file, or "imagenet" for the published ones."""
    freeze: bool = False
    """Freeze the backbone: features are extracted once, and only the layers after it are trained."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.bins and self.rank:
            raise ArgumentError("rank must be 0 with bins > 0; use one of them.")
        if self.backbone is not None:
            check_backbone(self.backbone)
        if self.weights is not None:
            check_weights(self.weights, there=False)  # the file may be gone when a run is read


@dataclass(frozen=True)
class Inputs(Options):
    """How samples are prepared for the network."""

    size: Annotated[int, Bounds(at_least=1, at_most=2**14)] | None = None
    """Side of the images; by default the larger of the two domains."""
    channels: Annotated[int, Bounds(at_least=1, at_most=16)] | None = None
    """Channels of the images, 1 to 16; by default the larger of the two domains."""
    pixels: Literal["symmetric", "imagenet", "unit", "as-is"] = "symmetric"
    """"symmetric" scales to [-1, 1], "unit" to [0, 1], "imagenet" by ImageNet's mean and standard deviation; "as-is"
    does not scale."""
    augment: Literal["none", "crop", "resized-crop"] = "none"
    """Augmentation of training images: "resized-crop" (random size and place) or "crop" (random place), with flips."""
    views: Literal["whole", "centre-crop", "ten-crop"] = "whole"
    """Views of an image used for prediction: "whole", "centre-crop" or "ten-crop"."""
    partial: str | None = None
    """Keep only these classes of a labelled target, to study partial adaptation: "first:25" or names with commas."""
    thin: Count | None = None
    """Keep one in this many samples of every second class of a labelled target, to study different class proportions; 8
    in the recorded imbalanced tables."""
    standardise: Literal["auto", "source", "none"] = "auto"
    """Scaling of rows of numbers, learned on the source. All values but "none" multiply them by one number; "source"
    also gives each column unit variance, and "auto" does so if a few columns carry most of the squared distances, or if
    all have the same variance already. The channels of signals get mean 0 and unit variance, unless "none"."""
    columns: Literal["same", "shared"] = "same"
    """"shared" uses the columns that both tables have; with "same", other columns raise an error."""
    dates: tuple[str, ...] | None = None
    """Columns of dates to convert to numbers: year, month, day of the week, days since the source's first; without a
    name, all columns of dates. Otherwise, dates raise an error."""
    text: tuple[str, ...] | None = None
    """Columns of free text to convert to numbers (counts of n-grams, reduced to 30); without a name, all columns of
    free text. Otherwise, free text raises an error."""

    def __post_init__(self) -> None:
        for name in ("dates", "text"):
            given: Any = getattr(self, name)
            words = {True: (), False: None}
            value = words[given] if isinstance(given, bool) else (given,) if isinstance(given, str) else given
            object.__setattr__(self, name, value)
        super().__post_init__()
