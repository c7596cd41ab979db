"""The outcome of a run in a few lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from jumbot.methods import SOURCE_ONLY

if TYPE_CHECKING:
    from jumbot.adaptation.model import Model


def summary(model: Model) -> str:
    """What was chosen, how it does where labels are known, and what to beware of."""
    results = model.results
    lines = [f"data: {remark}" for remark in results.get("data_remarks", ())]
    if (decision := model.decision) is not None and not decision.asked:
        lines.append(decision.why)
    lines.append(rule_line(results))
    if results.get("accuracy") is not None:
        lines.append(
            f"target accuracy {100 * results['accuracy']:.1f} %, mean over classes "
            f"{100 * results['mean_class_accuracy']:.1f} % (evaluation: labels that training never saw)"
        )
    if results.get("rmse") is not None:
        r2 = "" if results["r2"] is None else f", R2 {results['r2']:.3f}"
        lines.append(
            f"target RMSE {results['rmse']:.4g}, MAE {results['mae']:.4g}{r2} (evaluation: labels that training never "
            "saw)"
        )
    if (estimate := model.estimated_accuracy) is not None:
        lines.append(f"{estimate}, without labels")
    diagnosis = results["diagnosis"]
    absent = [model.classes[c] for c in diagnosis.get("absent_classes", ())]
    if absent:
        lines.append(f"source classes that seem absent from the target: {', '.join(absent)}")
    lines.append(f"target samples that no source sample explains: {len(diagnosis['unexplained'])}")
    lines += results.get("decisions", ())
    if model.method["name"] != SOURCE_ONLY:
        lines += [f"warning: negative transfer is likely: {reason}" for reason in diagnosis["reasons"]]
    lines += [f"warning: {sign}" for sign in diagnosis.get("signs", ())]
    lines += [f"warning: {remark}" for remark in results.get("remarks", ())]
    return "\n".join(lines)


def rule_line(results: Mapping[str, Any]) -> str:
    """Which rule chose the model; oracle says what it is."""
    if results.get("oracle"):
        return "model chosen by: oracle (LOOKED AT TARGET LABELS; not a result that can be had without them)"
    return f"model chosen by: {results.get('rule', 'unknown')}" + (" iterate" if results.get("rule") == "last" else "")
