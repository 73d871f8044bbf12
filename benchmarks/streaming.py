"""How close rows in batches come to a fit on all of them at once.

Rows come in twenty batches, in random order, through ``partial_fit``, which keeps none of them and fixes the kernel
and the points on the first batch.  This is compared with ``fit`` on all of them, and with ``fit`` on the first batch
alone.  Test log loss, and the root mean square distance of the latent means from those of the fit on everything, in
units of its standard deviations (for the kernel machine with the kernel and the points of the first batch, so that only
the batches differ).

Target: for every loss, a mean log loss at most .01 above that of the fit on everything.

    python benchmarks/streaming.py --data PATH [--quick]
"""

from __future__ import annotations

from typing import Any

import numpy as np

from common import arguments, load, print_table, quality, report, split
from softmargin import BayesianLinearSVC, BayesianSVC

TABLES = {
    "raetsch/waveform": 4000,
    "raetsch/german": 800,
    "misc/spam": 3600,
    "libsvm/ijcnn1": 10_000,
    "libsvm/covtype": 10_000,
}
LOSSES, BATCHES, TEST_ROWS, TARGET = ("hinge", "hinge-augmented", "logistic"), 20, 5000, 0.01


def streamed(model: Any, X: np.ndarray, y: np.ndarray) -> Any:
    for rows in np.array_split(np.arange(len(y)), BATCHES):
        model.partial_fit(X[rows], y[rows], classes=[-1.0, 1.0])
    return model


def distance(one: Any, other: Any, X: np.ndarray) -> float:
    (mu, v), (mu_there, _) = one.latent_mean_and_variance(X), other.latent_mean_and_variance(X)
    return float(np.sqrt(np.mean((mu - mu_there) ** 2 / v)))


def compare(classifier: Any, loss: str, rows: Any) -> list[float]:
    """Log losses of the first batch, of all batches and of everything at once, and the distance of the means."""
    X, y, X_test, y_test = rows
    stream = streamed(classifier(loss=loss, random_state=0), X, y)
    first = len(y) // BATCHES
    models = [classifier(loss=loss, random_state=0).fit(X[:n], y[:n]) for n in (first, len(y))]
    losses = [quality(y_test, model.predict_proba(X_test)).log_loss for model in (models[0], stream, models[1])]
    same = models[1]
    if classifier is BayesianSVC:
        same = classifier(stream.kernel_, tune=None, inducing=stream.inducing_points_, loss=loss).fit(X, y)
    return [*losses, distance(same, stream, X_test)]


def main() -> None:
    options = arguments(__doc__)
    tables = dict(list(TABLES.items())[1:2]) if options.quick else TABLES
    excess: dict[str, list[float]] = {loss: [] for loss in LOSSES}
    cells = []
    for name, size in tables.items():
        X, y = load(options.data, name)
        rows = split(X, y, size, TEST_ROWS)
        for classifier in (BayesianSVC, BayesianLinearSVC):
            for loss in LOSSES:
                found = compare(classifier, loss, rows)
                excess[loss].append(found[1] - found[2])
                kind = "kernel" if classifier is BayesianSVC else "linear"
                cells.append(
                    [f"{name}, {kind}, {loss}", size, *(f"{value:.4f}" for value in found[:3]), f"{found[3]:.2f}"]
                )
    print_table(["table, model", "rows", "first batch", "batches", "everything", "distance"], cells)
    print()
    value = {loss: round(float(np.mean(gaps)), 4) for loss, gaps in excess.items()}
    report("streaming", value, {"log loss above a fit on everything": TARGET}, max(value.values()) <= TARGET)


if __name__ == "__main__":
    main()
