r"""
Transferring colours between photographs
========================================

Give the photograph of a pavilion the colours of a flower: each pixel is a point in the
cube of red, green and blue, and transport decides which colour becomes which. With
30,000 pixels per side the cost matrix would have 900 million entries. Minibatches of 64
pixels need none of it: :func:`jumbot.estimate` averages their plans into one sparse
plan between all pixels, and its barycentric map sends each pixel to the mean of the
colours that it was matched with.

The proportions of light and dark differ between the two: the pavilion stands in front
of a bright sky, the flower in front of dark leaves. Balanced transport (MBOT) must use
all colours as often as the flower does, so it paints half of the sky in the colour of
leaves. Unbalanced transport (UMBOT) may leave colours out, and the sky stays uniform.
"""

import math

import matplotlib.pyplot as plt
from sklearn.datasets import load_sample_images

import jumbot

# Every third pixel of each photograph, colours in [0, 1].
china, flower = (image[::3, ::3] / 255 for image in load_sample_images().images)
x, y = china.reshape(-1, 3), flower.reshape(-1, 3)
print(f"{len(x)} pixels per side")

# %%
# A pixel is drawn into about eight of the 4,000 minibatches. Pixels that none of them
# drew, or that sent no mass, keep their own colour (``missing=x``).

results = {}
for name, tau in (("MBOT", math.inf), ("UMBOT", 0.3)):
    estimate = jumbot.estimate(
        x, y, m=64, k=4000, epsilon=0.005, tau=tau, tol=1e-3, plan=True
    )
    coloured = estimate.plan.barycentric_map(y, missing=x)
    results[name] = coloured.reshape(china.shape).clip(0, 1)
    kept = (estimate.plan.marginals[0] == 0).sum()
    filled = estimate.plan.to_scipy().nnz / (len(x) * len(y))
    print(
        f"{name}: transported mass {estimate.plan.mass:.2f}, "
        f"{100 * filled:.1f} % of the pairs in the plan, {kept} pixels kept theirs"
    )

# %%

figure, axes = plt.subplots(2, 2, figsize=(9, 6.4), layout="constrained")
panels = {
    "the photograph": china,
    "colours from here": flower,
    r"MBOT, $\tau = \infty$": results["MBOT"],
    r"UMBOT, $\tau = 0.3$": results["UMBOT"],
}
for panel, (title, image) in zip(axes.flat, panels.items(), strict=True):
    panel.imshow(image)
    panel.set_title(title)
    panel.axis("off")
plt.show()
