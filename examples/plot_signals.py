"""
Signals from two sensors
========================

Two kinds of vibration, recorded by one sensor with labels and by a weaker, drifting one
without. A small network is trained on their statistics and spectra.
"""

import matplotlib.pyplot as plt
import numpy as np

import jumbot

rng = np.random.default_rng(0)
time = np.linspace(0, 1, 64)


def record(y, gain, drift):
    """`(n, 1, 64)`: 5 or 8 oscillations with a random phase."""
    phase = rng.uniform(0, 2 * np.pi, (len(y), 1, 1))
    wave = np.sin(2 * np.pi * (5 + 3 * y[:, None, None]) * time + phase)
    return gain * wave + drift * time + 0.3 * rng.normal(size=(len(y), 1, 64))


y, y_target = rng.integers(0, 2, 200), rng.integers(0, 2, 200)
X, X_target = record(y, 1.0, 0.0), record(y_target, 0.7, 1.0)

short = {"source_steps": 60, "steps": 60, "batch_size": 40, "evaluate_every": 20}
model = jumbot.adapt((X, y), (X_target, y_target), kind="signal", **short)

# %%
# The training records are a data frame; accuracies are measured with target labels that
# training never saw.

history = model.history
seen = history[history["event"] == "evaluation"]
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3), layout="constrained")
left.plot(time, X[0, 0], label="source")
left.plot(time, X_target[0, 0], label="target")
left.legend()
right.plot(seen["step"], seen["accuracy"], marker="o")
right.set_xlabel("step (adaptation begins at 60)")
right.set_ylabel("target accuracy")
plt.show()
