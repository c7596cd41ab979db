"""What can be set in a run beside its method: training, network, inputs; each for function, command and record."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from jumbot._base.options import Bounds, Count, Options, Positive, Seed, Share, Weight, Whole, Width
from jumbot._settings.names import check_backbone, check_weights
from jumbot.errors import ArgumentError

Tracker = Literal["tensorboard", "wandb", "mlflow", "comet_ml", "aim", "clearml", "dvclive", "swanlab", "trackio"]
Rule = Literal["last", "entropy", "infomax", "snd", "smoothness", "source_validation", "transport", "oracle"]
_EPOCHS, FEWEST, _MOST = 10, 200, 1000  # of a run whose length nobody has said


@dataclass(frozen=True)
class Training(Options):
    """Length, optimiser and records of a training run."""

    batch_size: Annotated[int, Bounds(at_least=1, at_most=2**20)] = 50
    """Samples of each domain in a minibatch."""
    sampler: Literal["stratified", "shuffled"] = "stratified"
    """How source minibatches are drawn: "stratified", as many of each class, or "shuffled", in passes over all samples;
    by default as the authors of the method do."""
    source_epochs: Whole = 0
    """Passes over the source before adaptation, on the source alone."""
    epochs: Count | None = None
    """Passes over the source during adaptation; an epoch is floor(source samples / batch_size) steps."""
    steps: Count | None = None
    """Steps of adaptation, instead of epochs; with neither, 10 epochs, but at least 200 steps and at most 1,000."""
    source_steps: Whole | None = None
    """Steps on the source alone, instead of source_epochs."""
    optimizer: Literal["adam", "adamw", "sgd"] = "sgd"
    """Adam, Adam with decoupled weight decay ("adamw"), or SGD with momentum .9 (Nesterov)."""
    learning_rate: Positive = 0.01
    """Rate of the new layers."""
    backbone_rate: Weight = 0.1
    """Rate of a pretrained backbone, as a share of learning_rate."""
    schedule: Literal["constant", "inverse", "flat-cosine"] = "inverse"
    """"inverse" multiplies the rate by (1 + 10 p)^-.75 at p = step / schedule_steps; "flat-cosine" leaves it for half
    of the way, and lets it fall to 0 along a cosine."""
    schedule_steps: Count | None = None
    """Steps after which the schedule is at p = 1, and goes on; None: those of the adaptation."""
    weight_decay: Weight = 0.001
    """Weight decay: of AdamW decoupled, of SGD and Adam the L2 penalty; 0 with Adam, unless you or the method's
    authors say otherwise."""
    k: Annotated[int, Bounds(at_least=1, at_most=2**20)] = 1
    """Pairs of minibatches averaged in a step: the paper's k, on one process."""
    global_plan: bool = False
    """With several processes: join their minibatches into one problem instead of averaging over them. One process has
    one problem, so that the same script runs on any number of them."""
    seed: Seed = 0
    """Everything random follows from it."""
    select: Rule = "last"
    """The rule that chooses the model: last, or a label-free score: entropy, infomax, snd, source_validation,
    transport; of numbers smoothness, source_validation, transport. "oracle" looks at the target's labels, and every
    output says so."""
    label_loss: Literal["squared", "huber"] | None = None
    """What a wrong number costs, in deviations of the source's: "squared", the default, or "huber", which outliers
    move less."""
    validation: Share = 0.0
    """Share of the source held out for the score source_validation."""
    evaluate_every: Whole | None = None
    """Steps between evaluations; by default an epoch, and at least 10 steps. 0: none."""
    evaluate_samples: Count | None = None
    """Look at this many samples in evaluations along the way; the last is always whole."""
    checkpoint_every: Count | None = None
    """Steps between checkpoints; by default once a minute."""
    mixed_precision: Literal["no", "fp16", "bf16"] = "no"
    """Autocast of the network; the solver stays in float32 and float64."""
    batch_norm: Literal["running", "target"] = "running"
    """"target": when training ends, batch norms estimate their means and deviations anew on the whole target;
    "running": they keep the running means over source and target minibatches."""
    device: str = "auto"
    """Where to train: auto, cpu, cuda, cuda:1, mps."""
    workers: Annotated[int, Bounds(at_least=0, at_most=64)] | None = None
    """Processes that read image files ahead; 0: a thread does. By default half of the cores less one, at most 4, and 0
    for few images and data in memory. Results do not depend on it."""
    trackers: tuple[Tracker, ...] = ()
    """Also send settings and curves to these, through accelerate: tensorboard (into the run folder), wandb, mlflow,
    comet_ml, aim, clearml, dvclive, swanlab, trackio."""
    tensorboard: bool = False
    """The same as the tracker tensorboard."""

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
    "efficientnet-lite0", "resnet50", ..., "timm:NAME". By default it follows the data."""
    features: Width | None = None
    """Width of the embedding; by default 128 for digits and signals, 256 elsewhere."""
    hidden: tuple[Width, ...] = ()
    """Widths of ReLU layers before the embedding of a table."""
    dropout: Share = 0.0
    """Share of the units of every hidden layer of a table that is left out in each step of training; with `bins` some
    of the inputs are left out too, fewer the more rows the source has."""
    bins: Annotated[int, Bounds(at_least=0, at_most=256)] = 0
    """Pieces, between quantiles of the source, in which the network for a table sees each number beside its robustly
    scaled value, whatever `standardise` does; 0, the default with standardise="none": the numbers alone."""
    rank: Annotated[int, Bounds(at_least=0, at_most=2**14)] = 0
    """Directions to which a truncated SVD of the source reduces wide rows, such as counts of words; 0: none."""
    weights: str | None = None
    """Weights of a pretrained backbone: a file, or "imagenet" for the published ones."""
    freeze: bool = False
    """Keep the backbone as it is: features are extracted once, and only the layers after it are trained."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.bins and self.rank:
            raise ArgumentError("rank: must be 0 with bins > 0: a table is cut in pieces or reduced to directions.")
        if self.backbone is not None:
            check_backbone(self.backbone)
        if self.weights is not None:
            check_weights(self.weights, there=False)  # the file may be gone when a run is read


@dataclass(frozen=True)
class Inputs(Options):
    """How samples are brought to the network."""

    size: Annotated[int, Bounds(at_least=1, at_most=2**14)] | None = None
    """Side of the images; by default the larger of the two domains."""
    channels: Annotated[int, Bounds(at_least=1, at_most=16)] | None = None
    """Of the images, 1 to 16; by default the larger of the two domains."""
    pixels: Literal["symmetric", "imagenet", "unit", "as-is"] = "symmetric"
    """"symmetric" scales to [-1, 1], "unit" to [0, 1], "imagenet" by ImageNet's mean and deviation; "as-is" leaves
    them."""
    augment: Literal["none", "crop", "resized-crop"] = "none"
    """Of training images: "resized-crop" (random size and place) or "crop" (random place), each with a flip."""
    views: Literal["whole", "centre-crop", "ten-crop"] = "whole"
    """Of images that are predicted: "whole", "centre-crop" or "ten-crop"."""
    partial: str | None = None
    """Keep only these classes of a labelled target, to study partial adaptation: "first:25" or names with commas."""
    thin: Count | None = None
    """Keep one in so many samples of every second class of a labelled target, to study class proportions that differ: 8
    in the recorded imbalanced tables."""
    standardise: Literal["auto", "source", "none"] = "auto"
    """Rows of numbers are brought to one scale, learned on the source; "source" also brings each column to deviation 1,
    "auto" does so where a few of them carry most of the squared distances, or where they have the same deviation
    already, "none" leaves the numbers as they are. The channels of signals come to mean 0 and deviation 1, unless
    "none"."""
    columns: Literal["same", "shared"] = "same"
    """"shared" takes the columns that both tables have; otherwise one that only one of them has is refused."""
    dates: tuple[str, ...] | None = None
    """Columns of a table whose dates become numbers: year, month, day of the week, days since the source's first;
    without a name, all columns of dates. They are refused otherwise."""
    text: tuple[str, ...] | None = None
    """Columns of a table whose free text becomes numbers (counts of n-grams, reduced to 30); without a name, all
    columns of free text. They are refused otherwise."""

    def __post_init__(self) -> None:
        for name in ("dates", "text"):
            given: Any = getattr(self, name)
            words = {True: (), False: None}
            value = words[given] if isinstance(given, bool) else (given,) if isinstance(given, str) else given
            object.__setattr__(self, name, value)
        super().__post_init__()
