"""Many classes in batches: what it is worth to remember how past rows couple classes.

Rows come in twenty batches through ``partial_fit``, as in `streaming.py`.  Where the loss couples classes, the past has
a matrix of weights by weights for each pair of classes beside that of each class.  With these matrices and without them
(past rows class by class), the test log loss is compared with that of ``fit`` on all rows, for the kernel machine with
the kernel and the points of the first batch.

Target: with the matrices, the mean log loss is lower than without them by two standard errors, over all tables, models
and losses, and at most .01 above that of the fit on everything.

    python benchmarks/streaming_classes.py --data PATH [--quick]
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from sklearn.metrics import log_loss

from common import Split, arguments, print_table, report, split
from pmlb import load_table
from softmargin import BayesianLinearSVC, BayesianSVC, coupling

TABLES = {
    "vehicle": 600,
    "cmc": 1000,
    "waveform_40": 1500,
    "satimage": 1500,
    "wine_quality_red": 1000,
    "yeast": 1000,
    "car": 1000,
    "led7": 1500,
}
LOSSES, BATCHES, TEST_ROWS, TARGET = ("logistic", "hinge"), 20, 2000, 0.01


def streamed(model: Any, rows: Split, most: int) -> tuple[Any, float]:
    """The model after all batches, with matrices for pairs of classes of up to ``most`` numbers; processor seconds."""
    kept, coupling._MOST = coupling._MOST, most
    start = time.process_time()
    for batch in np.array_split(np.arange(len(rows.y)), BATCHES):
        model.partial_fit(rows.X[batch], rows.y[batch], classes=np.unique([*rows.y, *rows.y_test]))
    coupling._MOST = kept
    return model, time.process_time() - start


def compare(classifier: Any, loss: str, rows: Split) -> list[float]:
    """Log losses class by class, with pairs of classes and of everything at once; seconds of the first two."""
    settings: dict[str, Any] = {"loss": loss} | ({"random_state": 0} if classifier is BayesianSVC else {})
    (alone, first), (together, second) = (streamed(classifier(**settings), rows, most) for most in (0, coupling._MOST))
    if classifier is BayesianSVC:
        settings |= {"kernel": together.kernel_, "tune": None, "inducing": together.inducing_points_}
    models = [alone, together, classifier(**settings).fit(rows.X, rows.y)]
    losses = [log_loss(rows.y_test, one.predict_proba(rows.X_test), labels=one.classes_) for one in models]
    return [*map(float, losses), first, second]


def main() -> None:
    options = arguments(__doc__)
    tables = {"cmc": 1000} if options.quick else TABLES
    found, cells = [], []
    for name, size in tables.items():
        X, y = load_table(options.data, name)
        rows = split(X, y, size, TEST_ROWS)
        for classifier in (BayesianSVC, BayesianLinearSVC):
            for loss in LOSSES:
                found.append(compare(classifier, loss, rows))
                kind = "kernel" if classifier is BayesianSVC else "linear"
                title = f"{name}, {len(np.unique(y))} classes, {kind}, {loss}"
                cells.append([title, *(f"{part:.4f}" for part in found[-1][:3]), *(f"{s:.1f}" for s in found[-1][3:])])
    print_table(["table, model", "class by class", "pairs", "everything", "seconds", "with pairs"], cells)
    alone, together, everything, first, second = np.transpose(found)
    gain = alone - together
    error = gain.std(ddof=1) / np.sqrt(len(gain))
    value = {
        "gain": round(float(gain.mean()), 4),
        "standard error": round(float(error), 4),
        "better": f"{int((gain > 0).sum())} of {len(gain)}",
        "above everything": round(float(np.mean(together - everything)), 4),
        "before": round(float(np.mean(alone - everything)), 4),
        "time": round(float(second.sum() / first.sum()), 2),
    }
    ok = gain.mean() > 2 * error and value["above everything"] <= TARGET
    print()
    report("streaming_classes", value, {"gain": "2 standard errors", "above everything": TARGET}, bool(ok))


if __name__ == "__main__":
    main()
