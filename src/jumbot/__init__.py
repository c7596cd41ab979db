"""Optimal transport between minibatches: certified, differentiable, batched."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jumbot import data as data
    from jumbot import methods as methods
    from jumbot import report as report
    from jumbot._shift.found import Shift as Shift
    from jumbot._shift.found import shift as shift
    from jumbot.adaptation._adapt import adapt as adapt
    from jumbot.adaptation._classifier import DomainAdaptationClassifier as DomainAdaptationClassifier
    from jumbot.adaptation._evaluation.diagnosis import Diagnosis as Diagnosis
    from jumbot.adaptation._model import Model as Model
    from jumbot.adaptation._model import load as load
    from jumbot.adaptation._regressor import DomainAdaptationRegressor as DomainAdaptationRegressor
    from jumbot.adaptation._scorers import target_scorer as target_scorer
    from jumbot.adaptation._tune import Tuned as Tuned
    from jumbot.adaptation._tune import tune as tune
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
    from jumbot.minibatch._estimate import estimate as estimate
    from jumbot.minibatch._estimator import BiasCurve as BiasCurve
    from jumbot.minibatch._estimator import Estimate as Estimate
    from jumbot.minibatch._estimator import LiftedPlan as LiftedPlan
    from jumbot.transport._certify import Certificate as Certificate
    from jumbot.transport._certify import certify as certify
    from jumbot.transport._points.sample_solution import SampleSolution as SampleSolution
    from jumbot.transport._points.solve_sample import solve_sample as solve_sample
    from jumbot.transport._sinkhorn_divergence import sinkhorn_divergence as sinkhorn_divergence
    from jumbot.transport._solution import Solution as Solution
    from jumbot.transport._solution import Status as Status
    from jumbot.transport._solve import solve as solve
    from jumbot.transport.divergences import Divergence as Divergence
else:
    from jumbot._base.lazy import lazy

    __getattr__, __dir__, __all__ = lazy(
        __name__,
        {
            "ArgumentError": "errors",
            "BiasCurve": "minibatch._estimator",
            "CacheWarning": "errors",
            "Certificate": "transport._certify",
            "CoupledLoader": "coupling",
            "Diagnosis": "adaptation._evaluation.diagnosis",
            "Divergence": "transport.divergences",
            "DomainAdaptationClassifier": "adaptation._classifier",
            "DomainAdaptationRegressor": "adaptation._regressor",
            "Estimate": "minibatch._estimator",
            "JointLoss": "loss",
            "JointTransportLoss": "loss",
            "JumbotError": "errors",
            "LiftedPlan": "minibatch._estimator",
            "MissingPackageError": "errors",
            "Model": "adaptation._model",
            "DataWarning": "errors",
            "NegativeTransferWarning": "errors",
            "NoTargetWarning": "errors",
            "NotConvergedWarning": "errors",
            "NotFiniteError": "errors",
            "SampleSolution": "transport._points.sample_solution",
            "Shift": "_shift.found",
            "Solution": "transport._solution",
            "Status": "transport._solution",
            "TooLargeError": "errors",
            "Trajectory": "flow",
            "Tuned": "adaptation._tune",
            "UnboundedError": "errors",
            "UnsupportedError": "errors",
            "adapt": "adaptation._adapt",
            "bounds": "[minibatch.bounds]",
            "certify": "transport._certify",
            "couple": "coupling",
            "data": "[data]",
            "estimate": "minibatch._estimate",
            "gradient_flow": "flow",
            "load": "adaptation._model",
            "methods": "[methods]",
            "report": "[report]",
            "shift": "_shift.found",
            "sinkhorn_divergence": "transport._sinkhorn_divergence",
            "solve": "transport._solve",
            "solve_sample": "transport._points.solve_sample",
            "target_scorer": "adaptation._scorers",
            "tune": "adaptation._tune",
        },
    )

__version__ = "0.2.0"
