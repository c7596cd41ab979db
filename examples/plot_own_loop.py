"""
The transport loss in your own training loop
============================================

`jumbot.JointTransportLoss` is a module: it takes embeddings and labels of a source
minibatch, embeddings and logits of a target minibatch, and returns a loss with its
plan. Everything else is plain PyTorch.
"""

import matplotlib.pyplot as plt
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import jumbot

torch.manual_seed(0)
centres = torch.tensor([[0.0, 0.0], [3.0, 0.0], [1.5, 2.6]])
y, y_target = torch.randint(3, (300,)), torch.randint(3, (300,))
X = centres[y] + 0.45 * torch.randn(300, 2)
X_target = centres[y_target] + 0.45 * torch.randn(300, 2) + torch.tensor([1.1, 0.7])
source = DataLoader(TensorDataset(X, y), batch_size=50, shuffle=True)
target = DataLoader(TensorDataset(X_target), batch_size=50, shuffle=True)

# %%
# The target's labels are only used for the curve.

embed = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 16))
classify = nn.Linear(16, 3)
transport = jumbot.JointTransportLoss(eta1=0.1, eta2=1.0, tau=1.0, epsilon=0.1)
optimizer = torch.optim.Adam([*embed.parameters(), *classify.parameters()], lr=3e-3)
accuracy = []
for epoch in range(30):
    for (x, labels), (x_target,) in zip(source, target, strict=True):
        z, z_target = embed(x), embed(x_target)
        loss = nn.functional.cross_entropy(classify(z), labels)
        if epoch >= 10:  # before it knows something, its answers are noise
            loss = loss + transport(z, labels, z_target, classify(z_target)).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        accuracy.append(
            float((classify(embed(X_target)).argmax(1) == y_target).float().mean())
        )

plt.figure(figsize=(6, 3), layout="constrained")
plt.plot(range(1, 31), accuracy)
plt.axvline(10.5, linestyle="--", color="grey")
plt.xlabel("epoch (transport begins at the line)")
plt.ylabel("target accuracy")
plt.show()
