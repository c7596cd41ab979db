"""Hyper-parameters of all methods.

They stand apart from the methods so that the command can print them without importing torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from jumbot.options import Bounds, Options, Positive, Share, Width


@dataclass(frozen=True)
class MethodOptions(Options):
    """Base of the options of a method: numbers must be finite and not negative, counts at least 1, words known."""


@dataclass(frozen=True)
class SourceOnlyOptions(MethodOptions):
    """Source-only has no hyper-parameters."""


@dataclass(frozen=True)
class DeepJDOTOptions(MethodOptions):
    """Hyper-parameters of DeepJDOT; the defaults are those that the JUMBOT paper compares with on Office-Home."""

    eta1: float = 0.01
    """Weight of the squared distance between embeddings in the cost."""
    eta2: float = 0.5
    """Weight of the label term in the cost."""
    eta3: float = 1.0
    """Weight of the transport term in the loss."""
    epsilon: float = 0.0
    """0 is exact transport; above 0 the entropic variant."""
    scale: Literal["auto"] | None = None
    """"auto", in the recipes for your own data: distances follow the scale of the embedding, so that its units play no
    part; None: they count as they are, as in the paper."""
    scale_at: Positive = 360.0
    """Mean squared distance between source embeddings at which eta1 holds: 360 on the paper's image networks, 46 on its
    digits."""
    variant: Literal["paper", "original"] = "paper"
    """"paper": one cost with the cross-entropy, as the JUMBOT paper has it. "original": the plan comes from squared
    distances between one-hot labels and predicted probabilities, the loss from the cross-entropy; its authors took
    eta1 = .001 and eta2 = .0001."""


@dataclass(frozen=True)
class JumbotOptions(MethodOptions):
    """Hyper-parameters of JUMBOT; the defaults are the paper's for Office-Home."""

    eta1: float = 0.01
    """Weight of the squared distance between embeddings in the cost."""
    eta2: float = 0.5
    """Weight of the cross-entropy between source label and target prediction in the cost."""
    eta3: float = 1.0
    """Weight of the transport term in the loss."""
    tau: Annotated[float, Bounds(above=0, infinite=True)] = 0.5
    """Price of leaving mass behind; pairs much dearer than 2 tau are hardly matched."""
    epsilon: float = 0.01
    """Strength of the entropy of the plan."""
    reference: Literal["product", "ones"] = "product"
    """"product" is the paper's text, "ones" its published code."""
    scale: Literal["auto"] | None = None
    """"auto", in the recipes for your own data: distances follow the scale of the embedding, so that its units play no
    part; None: they count as they are, as in the paper."""
    scale_at: Positive = 360.0
    """Mean squared distance between source embeddings at which eta1 holds: 360 on the paper's image networks, 46 on its
    digits."""


@dataclass(frozen=True)
class DANNOptions(MethodOptions):
    """Hyper-parameters of DANN."""

    weight: float = 1.0
    """Weight of the adversarial term in the loss."""
    discriminator_width: Width = 1024
    """Width of the two hidden layers of the discriminator."""


@dataclass(frozen=True)
class CDANOptions(MethodOptions):
    """Hyper-parameters of CDAN-E."""

    weight: float = 1.0
    """Weight of the adversarial term in the loss."""
    map: Literal["outer", "random"] = "outer"
    """How features and probabilities are joined: "outer", all products, or "random", a fixed random map of them, for
    many classes or wide embeddings."""
    random_features: Width = 1024
    """Width of the random map."""
    entropy_gradient: bool = False
    """Let the (reversed) gradient flow through the entropies of the weights too, as the published code does."""
    discriminator_width: Width = 1024
    """Width of the two hidden layers of the discriminator."""


@dataclass(frozen=True)
class ALDAOptions(MethodOptions):
    """Hyper-parameters of ALDA; the defaults are those for photographs."""

    threshold: Share = 0.9
    """Target samples whose largest probability is not above this are left out; .6 for digits."""
    weight: float = 1.0
    """Weight of the adversarial term and of the discriminator's own source term."""
    self_training: float = 1.0
    """Weight of the self-training with corrected labels."""
    ramp: bool = True
    """Raise the weight of the self-training from 0 to 1 as the gradient reversal; False for digits."""
    discriminator_width: Width = 1024
    """Width of the two hidden layers of the discriminator."""


@dataclass(frozen=True)
class ROTOptions(MethodOptions):
    """Hyper-parameters of ROT."""

    weight: float = 1.0
    """Weight of the adversarial term in the loss."""
    rho: float = 0.2
    """Size of the chi-square ball around equal weights; 0 keeps them equal."""
    critic_steps: int = 5
    """The critic learns in every step, the features from it in one of so many."""
    refresh_every: int = 500
    """Steps between two computations of the weights over all target samples."""
    critic_width: Width = 256
    """Width of the two hidden layers of the critic."""


@dataclass(frozen=True)
class MCCOptions(MethodOptions):
    """Hyper-parameters of MCC."""

    weight: float = 1.0
    """Weight of the confusion in the loss."""
    temperature: Positive = 2.5
    """Divides the logits; above 1 it softens predictions that are too sure of themselves."""


@dataclass(frozen=True)
class PADAOptions(MethodOptions):
    """Hyper-parameters of PADA."""

    weight: float = 1.0
    """Weight of the adversarial term in the loss."""
    refresh_every: int = 500
    """Steps between two estimates of the class weights."""
    discriminator_width: Width = 1024
    """Width of the two hidden layers of the discriminator."""


@dataclass(frozen=True)
class ETNOptions(MethodOptions):
    """Hyper-parameters of ETN."""

    weight: float = 1.0
    """Weight of the adversarial term in the loss."""
    entropy: float = 0.2
    """Weight of the entropy of target predictions."""
    auxiliary_domain: float = 10.0
    """Weight of the domain term of the auxiliary classifier."""
    auxiliary_label: float = 1.0
    """Weight of the label term of the auxiliary classifier."""
    discriminator_width: Width = 1024
    """Width of the two hidden layers of the discriminator."""


@dataclass(frozen=True)
class BA3USOptions(MethodOptions):
    """Hyper-parameters of BA3US."""

    weight: float = 1.0
    """Weight of the adversarial term in the loss."""
    entropy: float = 0.1
    """Weight of the entropy of target predictions."""
    complement: float = 1.0
    """Weight of the negative entropy of the wrong classes on the source."""
    extra: Annotated[float, Bounds(at_least=0, at_most=1)] = 0.25
    """Share of the source minibatch that stands in as target samples at the start; falls to 0 at the end."""
    refresh_every: int = 500
    """Steps between two estimates of the class weights."""
    discriminator_width: Width = 1024
    """Width of the two hidden layers of the discriminator."""
