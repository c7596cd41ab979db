"""
Numbers: when adaptation helps, and when it does harm
=====================================================

The progress of diabetes a year later, predicted from ten measurements (data of
scikit-learn). Two splits: from one sex to the other, whose disease progresses equally
far, and from patients with a low body mass index to those with a high one, whose
disease progresses further. Transport assumes that the numbers have the same
distribution in both domains; the first split satisfies this, the second does not.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes

import jumbot

data = load_diabetes(scaled=False)
X, y = data.data, data.target
splits = {
    "by sex": X[:, 1] == 1,
    "by body mass index": X[:, 2] <= np.median(X[:, 2]),
}

# %%
# Three seeds each, compared with source-only. Nothing is tuned.

errors = {}
for name, here in splits.items():
    for method in ("source-only", "jumbot"):
        models = [
            jumbot.adapt(
                (X[here], y[here]),
                (X[~here], y[~here]),
                task="regression",
                method=method,
                seed=seed,
                evaluate_every=0,
            )
            for seed in range(3)
        ]
        errors[name, method] = [model.results["rmse"] for model in models]
        print(f"{name}, {method}: RMSE {np.round(errors[name, method], 1)}")

# %%
# Dots are seeds. On the right are the target's true numbers, which are unknown in
# practice: the report of a run shows the predicted ones next to the source's instead,
# and :func:`jumbot.tune` does not adapt if these differ much.

figure, axes = plt.subplots(1, 3, figsize=(10, 3), layout="constrained")
colours = {"source-only": "tab:gray", "jumbot": "tab:orange"}
for place, (name, method) in enumerate(errors):
    axes[0].plot([place] * 3, errors[name, method], "o", color=colours[method])
axes[0].set_xticks(
    range(4), [f"{method}\n{name[3:]}" for name, method in errors], fontsize=7
)
axes[0].set_ylabel("RMSE on the target")
for axis, (name, here) in zip(axes[1:], splits.items(), strict=True):
    axis.hist(y[here], 20, density=True, alpha=0.5, color="tab:gray", label="source")
    axis.hist(y[~here], 20, density=True, alpha=0.5, color="tab:blue", label="target")
    axis.set_title(name)
    axis.set_xlabel("progress")
    axis.set_yticks([])
axes[1].legend()
plt.show()
