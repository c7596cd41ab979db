"""
Adapting a classifier to a target that moved and changed its proportions
========================================================================

Three classes in the source, in equal parts. In the target all have moved, and one of
them is rare. Source-only ignores the target; balanced transport (DeepJDOT) has to match
the classes in equal parts; unbalanced transport (JUMBOT) leaves out what has no
counterpart.
"""

import matplotlib.pyplot as plt
import numpy as np

import jumbot

# %%
# The target's labels are only used for colours and titles.

rng = np.random.default_rng(0)
centres = np.array([[0.0, 0.0], [3.0, 0.0], [1.5, 2.6]])
y, y_target = rng.integers(0, 3, 300), rng.choice(3, 300, p=[0.6, 0.35, 0.05])
X = centres[y] + 0.45 * rng.normal(size=(300, 2))
X_target = centres[y_target] + 0.45 * rng.normal(size=(300, 2)) + [1.0, 0.6]

figure = plt.figure(figsize=(11, 3.6), layout="constrained")
side = np.linspace(-2, 6, 160)
grid = np.stack(np.meshgrid(side, side), -1).reshape(-1, 2)
for k, method in enumerate(("source-only", "deepjdot", "jumbot")):
    clf = jumbot.DomainAdaptationClassifier(method, random_state=0)
    clf.fit(X, y, X_target=X_target)
    axes = figure.add_subplot(1, 3, k + 1)
    axes.contourf(side, side, clf.predict(grid).reshape(160, 160), cmap="Pastel2")
    axes.scatter(*X.T, c=y, cmap="Dark2", s=5, alpha=0.5)
    axes.scatter(*X_target.T, c=y_target, cmap="Dark2", s=18, marker="x", linewidths=1)
    share = 100 * clf.score(X_target, y_target)
    axes.set_title(f"{method}: {share:.0f} % of the target (crosses)", fontsize=10)
    axes.set_axis_off()
plt.show()

# %%
# The mass that JUMBOT's plan moved during training: it starts with the pairs that match
# and leaves out the rest.

mass = [step["mass"] for step in clf.history_]
print(f"mass: {np.mean(mass[:20]):.2f} at first, {np.mean(mass[-20:]):.2f} in the end")
