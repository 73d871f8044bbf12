"""
Novelty detection: one species of penguin
=========================================

**The question.** A model has seen only one species. Can it detect birds of other species, at a false alarm rate fixed
in advance?

**The data.** The Palmer penguins (CC0), 342 birds with four measurements each. The model is fitted to a hundred of the
151 Adelie penguins, and to no other birds.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from softmargin import BayesianOneClassSVM

here = Path(__file__).parent if "__file__" in globals() else Path.cwd()
MEASURES = ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g"]
birds = pd.read_csv(here / "penguins.csv").dropna(subset=MEASURES)
adelie = birds[birds["species"] == "Adelie"].sample(frac=1, random_state=0)
usual, new, others = adelie[:100], adelie[100:], birds[birds["species"] != "Adelie"]

# %%
# The fit
# -------
# One bird in twenty of the same species may raise a false alarm. The threshold comes from the leave-one-out scores of
# the hundred training birds, so none has to be held out.
model = BayesianOneClassSVM(false_alarm_rate=0.05, random_state=0).fit(usual[MEASURES])
for name, rows in (("new Adelie", new), *others.groupby("species")):
    alarms = model.predict(rows[MEASURES]) < 0
    print(f"{name:<12} {alarms.sum():>3} alarms in {len(rows):>3} birds ({alarms.mean():.0%})")

# %%
# The picture
# -----------
# On two of the measurements: the p-value at every point, the training birds (dots), new birds of the same species
# (circles) and of others (crosses). The line is the threshold.
PAIR = MEASURES[:2]
flat = BayesianOneClassSVM(false_alarm_rate=0.05, random_state=0).fit(usual[PAIR])
low, high = birds[PAIR].min() - 2, birds[PAIR].max() + 2
x, y = np.meshgrid(np.linspace(low.iloc[0], high.iloc[0], 150), np.linspace(low.iloc[1], high.iloc[1], 150))
places = pd.DataFrame({PAIR[0]: x.ravel(), PAIR[1]: y.ravel()})
figure, ax = plt.subplots(figsize=(7, 4.6), layout="constrained")
surface = ax.pcolormesh(x, y, flat.p_value(places).reshape(x.shape), cmap="Blues", vmin=0, vmax=1, rasterized=True)
ax.contour(x, y, flat.decision_function(places).reshape(x.shape), levels=[0], colors="black", linewidths=1)
ax.scatter(*usual[PAIR].to_numpy().T, s=8, color="black", label="Adelie, training")
ax.scatter(*new[PAIR].to_numpy().T, s=24, facecolors="none", edgecolors="black", label="Adelie, new")
for (name, rows), colour in zip(others.groupby("species"), ("tab:orange", "tab:red"), strict=True):
    ax.scatter(*rows[PAIR].to_numpy().T, s=14, marker="x", linewidths=0.8, color=colour, label=name)
ax.set(xlabel="bill length (mm)", ylabel="bill depth (mm)")
ax.legend(loc="lower right", fontsize=8)
figure.colorbar(surface, label="share of Adelie penguins at least as unusual")
plt.show()

# %%
# **What to read from it.** Nearly all birds of the other species are detected, though the model has seen none of them,
# and the false alarm rate is consistent with the one requested.
#
# **What it does not show.** Fifty-one new birds say little about a rate of one in twenty; 41 tables say more, in
# :doc:`the benchmarks </benchmarks/choices>`. Species that differ in these measurements are easy. No method detects
# unusual rows that lie among ordinary ones, and a classifier that has seen both species does better than any novelty
# detector.
