"""
A target that lacks a class
===========================

The source has four classes, the target only three of them, and some samples that belong
to no class. The plan shows both: classes that seem absent, and samples that no
source sample explains.
"""

import matplotlib.pyplot as plt
import numpy as np

import jumbot

rng = np.random.default_rng(0)
centres = 4 * np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
y, y_target = rng.integers(0, 4, 400), rng.integers(0, 3, 200)
X = centres[y] + 0.5 * rng.normal(size=(400, 2))
strangers = rng.uniform(9, 12, size=(10, 2))
X_target = np.concatenate(
    [centres[y_target] + 0.5 * rng.normal(size=(200, 2)) + 0.6, strangers]
)

model = jumbot.adapt((X, y), X_target, recipe="table-partial", steps=150)
found = model.diagnosis
print("seem absent:", [model.classes[c] for c in found["absent_classes"]])
strange = np.array(found["unexplained"]) >= len(y_target)
print(f"unexplained: {strange.sum()} of 10 outliers, {(~strange).sum()} others")

# %%
# Crosses are target samples in the colour of their predicted class, rings those that
# are unexplained.

plt.figure(figsize=(6, 4.5), layout="constrained")
plt.scatter(*X.T, c=y, cmap="Dark2", s=6, alpha=0.4)
plt.scatter(
    *X_target.T,
    c=model.predict(X_target),
    cmap="Dark2",
    s=22,
    marker="x",
    vmin=0,
    vmax=3,
)
plt.scatter(
    *X_target[found["unexplained"]].T, s=90, facecolors="none", edgecolors="black"
)
plt.gca().set_axis_off()
plt.show()
