"""Hyper-parameters of all methods.

They stand apart from the methods so that the command can print them without importing torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from jumbot._base.options import Bounds, Options, Positive, Share, Width
from jumbot._settings.recipes import DEEPJDOT_WEIGHTS
from jumbot.errors import ArgumentError

Sampler = Literal["stratified", "shuffled"]


@dataclass(frozen=True)
class MethodOptions(Options):
    """Base of the options of a method: numbers must be finite and not negative, counts at least 1, words known.

    Attributes
    ----------
    sampler : {"shuffled", "stratified"}
        How its authors draw source minibatches, unless the training says otherwise.
    predict_numbers : bool
        Whether the method is for numbers too, and not for classes alone.
    """

    sampler: ClassVar[Sampler] = "shuffled"
    predict_numbers: ClassVar[bool] = False


@dataclass(frozen=True)
class SourceOnlyOptions(MethodOptions):
    """Source-only has no hyper-parameters."""

    predict_numbers = True


@dataclass(frozen=True)
class TransportOptions(MethodOptions):
    """Hyper-parameters of every method with a joint cost of features and labels."""

    sampler = "stratified"
    predict_numbers = True
    eta1: float = 0.01
    """Weight of the squared distance between embeddings in the cost."""
    eta2: float = 0.5
    """Weight of the cross-entropy between source label and target prediction in the cost."""
    eta3: float = 1.0
    """Weight of the transport term in the loss."""
    scale: Literal["auto"] | None = None
    """"auto", in the recipes for your own data: distances are divided by the scale of the embedding, so that its units
    do not matter; None: distances are used unchanged, as in the paper."""
    scale_at: Positive = 360.0
    """Mean squared distance between source embeddings at which eta1 holds: 360 on the paper's image networks, 46 on its
    digits."""
    engine: Literal["auto", "cpu", "device"] = "auto"
    """Where the plan of minibatches on a GPU is computed: on the GPU ("device"), on the CPU ("cpu"), or depending on
    their size ("auto")."""


@dataclass(frozen=True)
class DeepJDOTOptions(TransportOptions):
    """Hyper-parameters of DeepJDOT; the defaults are those used in the JUMBOT paper on Office-Home."""

    epsilon: float = 0.0
    """0: exact transport; > 0: entropic transport."""
    variant: Literal["paper", "original"] = "paper"
    """"paper": one cost with the cross-entropy, as in the JUMBOT paper. "original": the plan comes from squared
    distances between one-hot labels and predicted probabilities, the loss from the cross-entropy."""
    cost_weights: Literal["recipe", "original"] = "recipe"
    """"original" sets eta1 = .001 and eta2 = .0001, as its authors and its rows in the JUMBOT paper do; "recipe": eta1
    and eta2 come from the recipe or from you."""
    ORIGINAL: ClassVar[Mapping[str, float]] = DEEPJDOT_WEIGHTS
    """Its authors' weights of the cost."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cost_weights == "recipe":
            return
        for name, value in self.ORIGINAL.items():
            if getattr(self, name) not in (value, getattr(DeepJDOTOptions, name)):
                raise ArgumentError(
                    f"{name}: must be left out with cost_weights='original', which sets it to {value:g}, got "
                    f"{getattr(self, name):g}."
                )
            object.__setattr__(self, name, value)


@dataclass(frozen=True)
class JumbotOptions(TransportOptions):
    """Hyper-parameters of JUMBOT; the defaults are the paper's for Office-Home."""

    eta3_ramp: Share = 0.0
    """Fraction of the adaptation over which eta3 rises from 0; 0: it is constant."""
    tau: Annotated[float, Bounds(above=0, infinite=True)] = 0.5
    """Penalty for leaving mass behind; pairs that cost much more than 2 tau are hardly matched."""
    epsilon: float = 0.01
    """Strength of the entropy of the plan."""
    reference: Literal["product", "ones"] = "product"
    """"product" is the paper's text, "ones" its published code."""
    proportions: Literal["equal", "estimated"] = "equal"
    """"estimated", in the recipes for your own data: source classes are weighted by their estimated proportions in the
    target, if the plan and the classifier agree on these; "equal": all classes have the same weight, as in the
    paper."""
    source_loss: Literal["uniform", "plan"] = "uniform"
    """"plan": source samples are weighted in the cross-entropy by the mass that the plan moves from them, so that
    samples without a partner in the target lose their weight (WARMPOT); "uniform": all have the same weight, as in the
    paper."""


@dataclass(frozen=True)
class MPOTOptions(TransportOptions):
    """Hyper-parameters of m-POT; the defaults are those of its authors for Office-Home."""

    predict_numbers = False
    mass: Annotated[float, Bounds(above=0, at_most=1)] = 0.5
    """Fraction of the mass that every plan moves: .5 on Office-Home, .75 on VisDA-2017, .85 on digits."""
    mass_ramp: Share = 0.0
    """Fraction of the adaptation over which the mass rises from .01; its authors used .5 on partial targets."""
    epsilon: float = 0.0
    """0: exact transport; > 0: entropic transport."""


@dataclass(frozen=True)
class ELOTOptions(TransportOptions):
    """Hyper-parameters of ELOT; the defaults are JUMBOT's on Office-Home where it has them."""

    predict_numbers = False
    reward: Positive = 1.0
    """Reward for moving a unit of mass: pairs that cost less are matched, others are not. It corresponds to 2 tau of
    JUMBOT."""
    epsilon: float = 0.0
    """0: exact transport; > 0: entropic transport."""


@dataclass(frozen=True)
class MCCOptions(MethodOptions):
    """Hyper-parameters of MCC."""

    weight: float = 1.0
    """Weight of the confusion in the loss."""
    temperature: Positive = 2.5
    """Divides the logits; above 1 it softens overconfident predictions."""


@dataclass(frozen=True)
class ROTOptions(MethodOptions):
    """Hyper-parameters of ROT."""

    weight: float = 1.0
    """Weight of the adversarial term in the loss."""
    rho: float = 0.2
    """Size of the chi-square ball around equal weights; 0 keeps them equal."""
    critic_steps: int = 5
    """The critic learns in every step, the features only in one of this many."""
    refresh_every: int | None = None
    """Steps between two computations of the weights over all target samples; None: 500, or a twentieth of the run if
    that is less."""
    critic_width: Width = 256
    """Width of the two hidden layers of the critic."""
    critic_rate: Positive = 1e-4
    """Learning rate of Adam, which trains the critic; the network uses the optimiser of the run."""


@dataclass(frozen=True)
class AdversarialOptions(MethodOptions):
    """Hyper-parameters of every method whose features oppose a discriminator."""

    weight: float = 1.0
    """Weight of the adversarial term in the loss."""
    reversal_steps: int | None = 10_000
    """Length of the ramp of the gradient reversal in steps, independent of the length of the run; None: the whole
    run."""
    reversal_ceiling: float = 1.0
    """Final strength of the gradient reversal."""
    discriminator_width: Width = 1024
    """Width of the two hidden layers of the discriminator."""


@dataclass(frozen=True)
class DANNOptions(AdversarialOptions):
    """Hyper-parameters of DANN."""

    predict_numbers = True


@dataclass(frozen=True)
class CDANOptions(AdversarialOptions):
    """Hyper-parameters of CDAN-E."""

    map: Literal["outer", "random"] = "outer"
    """How features and probabilities are joined: "outer", all products, or "random", a fixed random map of them, for
    many classes or wide embeddings."""
    random_features: Width = 1024
    """Width of the random map."""
    entropy_gradient: bool = False
    """Let the (reversed) gradient also flow through the entropies of the weights, as the published code does."""


@dataclass(frozen=True)
class ALDAOptions(AdversarialOptions):
    """Hyper-parameters of ALDA; the defaults are those for photographs."""

    weight: float = 1.0
    """Weight of the adversarial term and of the discriminator's own source term."""
    threshold: Share = 0.9
    """Target samples whose largest probability is not above this are left out; .6 for digits."""
    self_training: float = 1.0
    """Weight of the self-training with corrected labels."""
    over_classes: Literal["mean", "sum"] = "mean"
    """How the self-training combines p c over the classes: "mean", as in the published code, or "sum", as in the
    article, which is stronger by the number of classes."""
    ramp: bool = True
    """Raise the weight of the self-training from 0 to 1 along the ramp of the gradient reversal; False for digits."""


@dataclass(frozen=True)
class PADAOptions(AdversarialOptions):
    """Hyper-parameters of PADA; the defaults are what its authors took for most tasks of Office-Home."""

    reversal_ceiling: float = 0.5
    """Final strength of the gradient reversal: .25 to .5 on most tasks of its authors, 1 on the others."""
    temperature: Positive = 0.1
    """Divides the target's logits when the class weights are estimated; below 1 it sharpens the probabilities."""
    refresh_every: int | None = None
    """Steps between two estimates of the class weights; None: 500, or a twentieth of the run if that is less."""


@dataclass(frozen=True)
class ETNOptions(AdversarialOptions):
    """Hyper-parameters of ETN."""

    sampler = "stratified"
    reversal_steps: int | None = 5_000
    """Length of the ramp of the gradient reversal in steps (the published 10,000 count both domains of a step); None:
    the whole run."""
    entropy: float = 0.2
    """Weight of the entropy of target predictions."""
    auxiliary_domain: float = 10.0
    """Weight of the domain term of the auxiliary classifier."""
    auxiliary_label: float = 1.0
    """Weight of the label term of the auxiliary classifier."""
    auxiliary_width: Width = 1024
    """Width of the two hidden layers of the auxiliary classifier."""


@dataclass(frozen=True)
class BA3USOptions(AdversarialOptions):
    """Hyper-parameters of BA3US."""

    reversal_steps: int | None = None
    """Length of the ramp of the gradient reversal in steps; None: the whole run, as published."""
    entropy: float = 0.1
    """Weight of the entropy of target predictions."""
    complement: float = 1.0
    """Weight of the negative entropy of the wrong classes on the source."""
    extra: Annotated[float, Bounds(at_least=0, at_most=1)] = 0.25
    """Extra source samples that are shown as target samples at the start, as a fraction of the minibatch; falls to 0 in
    ten steps."""
    entropy_gradient: bool = True
    """Let the (reversed) gradient also flow through the entropies of the weights, as the published code does."""
    refresh_every: int | None = None
    """Steps between two estimates of the class weights; None: 500, or a twentieth of the run if that is less."""
