"""Optimal transport between minibatches: certified, differentiable, batched."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jumbot import data as data
    from jumbot import methods as methods
    from jumbot import report as report
    from jumbot._shift.found import Shift as Shift
    from jumbot._shift.found import shift as shift
    from jumbot.adaptation.adapt import adapt as adapt
    from jumbot.adaptation.classifier import DomainAdaptationClassifier as DomainAdaptationClassifier
    from jumbot.adaptation.judgement.diagnosis import Diagnosis as Diagnosis
    from jumbot.adaptation.judgement.tune import Tuned as Tuned
    from jumbot.adaptation.judgement.tune import tune as tune
    from jumbot.adaptation.model import Model as Model
    from jumbot.adaptation.model import load as load
    from jumbot.adaptation.regressor import DomainAdaptationRegressor as DomainAdaptationRegressor
    from jumbot.adaptation.scorers import target_scorer as target_scorer
    from jumbot.coupling import CoupledLoader as CoupledLoader
    from jumbot.coupling import couple as couple
    from jumbot.errors import ArgumentError as ArgumentError
    from jumbot.errors import CacheWarning as CacheWarning
    from jumbot.errors import DataWarning as DataWarning
    from jumbot.errors import JumbotError as JumbotError
    from jumbot.errors import MissingPackageError as MissingPackageError
    from jumbot.errors import NegativeTransferWarning as NegativeTransferWarning
    from jumbot.errors import NoTargetWarning as NoTargetWarning
    from jumbot.errors import NotConvergedWarning as NotConvergedWarning
    from jumbot.errors import NotFiniteError as NotFiniteError
    from jumbot.errors import TooLargeError as TooLargeError
    from jumbot.errors import UnboundedError as UnboundedError
    from jumbot.errors import UnsupportedError as UnsupportedError
    from jumbot.flow import Trajectory as Trajectory
    from jumbot.flow import gradient_flow as gradient_flow
    from jumbot.loss import JointLoss as JointLoss
    from jumbot.loss import JointTransportLoss as JointTransportLoss
    from jumbot.minibatch import bounds as bounds
    from jumbot.minibatch.estimate import estimate as estimate
    from jumbot.minibatch.estimator import BiasCurve as BiasCurve
    from jumbot.minibatch.estimator import Estimate as Estimate
    from jumbot.minibatch.plan import LiftedPlan as LiftedPlan
    from jumbot.transport._certify import Certificate as Certificate
    from jumbot.transport._certify import certify as certify
    from jumbot.transport._points.sample_solution import SampleSolution as SampleSolution
    from jumbot.transport._points.solve_sample import solve_sample as solve_sample
    from jumbot.transport.divergences import Divergence as Divergence
    from jumbot.transport.sinkhorn_divergence import sinkhorn_divergence as sinkhorn_divergence
    from jumbot.transport.solution import Solution as Solution
    from jumbot.transport.solution import Status as Status
    from jumbot.transport.solve import solve as solve
else:
    from jumbot.lazy import lazy

    __getattr__, __dir__, __all__ = lazy(
        __name__,
        {
            "ArgumentError": "errors",
            "BiasCurve": "minibatch.estimator",
            "CacheWarning": "errors",
            "Certificate": "transport._certify",
            "CoupledLoader": "coupling",
            "Diagnosis": "adaptation.judgement.diagnosis",
            "Divergence": "transport.divergences",
            "DomainAdaptationClassifier": "adaptation.classifier",
            "DomainAdaptationRegressor": "adaptation.regressor",
            "Estimate": "minibatch.estimator",
            "JointLoss": "loss",
            "JointTransportLoss": "loss",
            "JumbotError": "errors",
            "LiftedPlan": "minibatch.plan",
            "MissingPackageError": "errors",
            "Model": "adaptation.model",
            "DataWarning": "errors",
            "NegativeTransferWarning": "errors",
            "NoTargetWarning": "errors",
            "NotConvergedWarning": "errors",
            "NotFiniteError": "errors",
            "SampleSolution": "transport._points.sample_solution",
            "Shift": "_shift.found",
            "Solution": "transport.solution",
            "Status": "transport.solution",
            "TooLargeError": "errors",
            "Trajectory": "flow",
            "Tuned": "adaptation.judgement.tune",
            "UnboundedError": "errors",
            "UnsupportedError": "errors",
            "adapt": "adaptation.adapt",
            "bounds": "[minibatch.bounds]",
            "certify": "transport._certify",
            "couple": "coupling",
            "data": "[data]",
            "estimate": "minibatch.estimate",
            "gradient_flow": "flow",
            "load": "adaptation.model",
            "methods": "[methods]",
            "report": "[report]",
            "shift": "_shift.found",
            "sinkhorn_divergence": "transport.sinkhorn_divergence",
            "solve": "transport.solve",
            "solve_sample": "transport._points.solve_sample",
            "target_scorer": "adaptation.scorers",
            "tune": "adaptation.judgement.tune",
        },
    )

__version__ = "0.1.0"
