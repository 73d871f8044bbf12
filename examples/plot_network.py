"""
A network that detects unknown classes and rotated images
=========================================================

**The question.** A trained network assigns every image to one of the classes it knows, often with high confidence. Can
it be made, after training, to detect digits it was never shown, and images turned on their side?

**The data.** The 1,797 handwritten digits that come with scikit-learn, 8 by 8 pixels. The network is trained on digits
0 to 7. Eights and nines are withheld: they are the unknown classes. The others are split at random into images for
training, for calibration and for the test.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from scipy.ndimage import rotate
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score
from torch import nn

from softmargin.nn import bayesianise
from softmargin.plot import DetectionDisplay
from softmargin.uncertainty import variation_ratio

torch.set_num_threads(1)
digits, labels = load_digits(return_X_y=True)
digits = (digits / 16).astype(np.float32)
unknown = digits[labels >= 8]
order = np.random.default_rng(0).permutation(np.flatnonzero(labels < 8))
training, calibration, test = order[:700], order[700:1000], order[1000:]
print(f"{len(training)} images for training, {len(calibration)} for calibration, {len(test)} for the test, ", end="")
print(f"{len(unknown)} of unknown digits")


def turned(images, angle):
    """Images rotated about their centre, by an angle in degrees."""
    return np.stack([rotate(image.reshape(8, 8), angle, reshape=False, order=1).ravel() for image in images])


# %%
# The network
# -----------
# A small convolutional network and an ordinary training loop. It is trained with three seeds: the behaviour of a single
# network proves little.


def trained(seed):
    """A network trained for twenty epochs."""
    torch.manual_seed(seed)
    network = nn.Sequential(
        *(nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 16, 3, padding=1), nn.ReLU()),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
        *(nn.Linear(512, 64), nn.ReLU(), nn.Linear(64, 8)),
    )
    inputs, codes = torch.from_numpy(digits[training]), torch.from_numpy(labels[training])
    optimiser = torch.optim.Adam(network.parameters(), 3e-3)
    for _ in range(20):
        for rows in torch.randperm(len(training)).split(64):
            optimiser.zero_grad()
            nn.functional.cross_entropy(network(inputs[rows]), codes[rows]).backward()
            optimiser.step()
    return network.eval()


# %%
# The head
# --------
# One line replaces the last layer by a Bayesian head; nothing is retrained. The probabilities of the head are
# calibrated on images that the network has not seen.


def with_head(network):
    """The same network with a Bayesian last layer."""
    rows, others = (
        [(torch.from_numpy(digits[part]), torch.from_numpy(labels[part]))] for part in (training, calibration)
    )
    return bayesianise(network, rows, held_out=others, n_inducing=100)


networks = [trained(seed) for seed in range(3)]
hybrids = [with_head(network) for network in networks]


def softmax(network, images):
    """The network's own probabilities."""
    with torch.no_grad():
        return torch.softmax(network(torch.from_numpy(images)), 1).numpy()


def softmax_entropy(network, images):
    """The entropy of these probabilities."""
    p = softmax(network, images)
    return -(p * np.log(np.maximum(p, 1e-30))).sum(axis=1)


accuracy = [np.mean(softmax(network, digits[test]).argmax(axis=1) == labels[test]) for network in networks]
print("accuracy on known digits, softmax:", np.round(accuracy, 3), end="; ")
print("with the head:", np.round([hybrid.score(digits[test], labels[test]) for hybrid in hybrids], 3))

# %%
# Which one notices?
# ------------------
# The softmax is scored by the entropy of its probabilities. The head is scored by the variation ratio: how likely it is
# that a class other than the predicted one would win if the function were known. An area under the ROC curve of 1 means
# that every strange image stands out, and one of a half that they do not stand out at all.
doubts = {"softmax, entropy": (softmax_entropy, networks), "head, variation ratio": (variation_ratio, hybrids)}
strange = {"unknown digits": unknown, "rotated by 90 degrees": turned(digits[test], 90)}
for kind, images in strange.items():
    for name, (doubt, models) in doubts.items():
        of_kind = np.repeat([0, 1], [len(test), len(images)])
        areas = [roc_auc_score(of_kind, doubt(model, np.concatenate([digits[test], images]))) for model in models]
        print(f"{kind:<21} {name:<22} area {np.mean(areas):.3f} (seeds: {', '.join(f'{area:.3f}' for area in areas)})")

# %%
# The picture
# -----------
# The first of the three networks. Left and middle: strange images detected against false alarms. Right: all test
# images, rotated step by step, with the share classified correctly and the mean of each score relative to its mean on
# unknown digits.
angles = np.arange(0, 181, 15)
steps = [turned(digits[test], angle) for angle in angles]
figure, axes = plt.subplots(1, 3, figsize=(11.5, 4), layout="constrained")
for ax, (kind, images) in zip(axes, strange.items(), strict=False):
    for name, (doubt, models) in doubts.items():
        DetectionDisplay.from_scores(doubt(models[0], digits[test]), doubt(models[0], images), name=name, ax=ax)
    ax.set_title(kind)
right = np.array([np.mean(softmax(networks[0], images).argmax(axis=1) == labels[test]) for images in steps])
axes[2].plot(angles, right, color="#2b2b2b", linestyle=":", label="classified correctly")
for (name, (doubt, models)), colour in zip(doubts.items(), ("#3b7fb8", "#e07b39"), strict=True):
    level = doubt(models[0], unknown).mean()
    axes[2].plot(angles, [doubt(models[0], images).mean() / level for images in steps], color=colour, label=name)
axes[2].set(xlabel="degrees", xticks=angles[::3], title="rotated step by step", ylim=(0, 1.4))
axes[2].spines[["top", "right"]].set_visible(False)
axes[2].legend(frameon=False, fontsize="small", loc="upper center")
plt.show()

# %%
favourite = softmax(networks[0], strange["rotated by 90 degrees"]).argmax(axis=1)
share = np.bincount(favourite, minlength=8).max() / len(test)
print(f"rotated by 90 degrees, {share:.0%} of all images are classified as a {np.bincount(favourite).argmax()}")

# %%
# **What to read from it.** Unknown digits stand out with either score, and the head costs no accuracy. Images on their
# side are another matter: this network takes nearly all of them for the same digit, and the softmax is at least as
# confident of that as of anything else. The head gives most of them a higher score than ordinary images.
#
# **What it does not show.** That all strange images are detected: in the right panel, the score of the head at 90
# degrees is small too, though larger than for ordinary images. A head sees an image only through the features of its
# network, and cannot separate what these do not.
