"""Claim: tuning finds the length-scale that a grid search with cross-validation finds, at a fraction of its cost.

Wenzel et al. (2017), Fig. 2, with their kernel: one length-scale for all (standardised) columns, unit variance.  The
grid: thirty length-scales over four decades, with a fixed-kernel model for each of them and each of ten folds, 100
points; the validation loss is the mean log loss of the folds.  Tuning: one fit on all rows, from starts of 1/100, 1/10,
1, 10 and 100 times the default, sqrt(d) (a tuner may abandon a start that the data support less than the default); then
the ten folds with the resulting length-scale, for its validation loss.
Tuners: the logistic bound, the leave-one-out loss, the bound of the exact hinge, and the paper's own: gradient steps on
the bound of the augmented hinge.

The default tuner's targets, on each table: starts 100 times apart end within 10 % of each other; the validation loss is
within one standard error (over folds) of the grid's best; tuning from the default start takes at most a fiftieth of the
grid's time.

    python benchmarks/wenzel_fig2.py --data PATH [--quick]
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import StratifiedKFold
from threadpoolctl import threadpool_limits

from common import arguments, load, print_table, quality, report, save_picture, standardised, timed
from softmargin import BayesianSVC
from softmargin.kernels import RBF

TABLES, POINTS, GRID = ["raetsch/diabetis", "raetsch/waveform"], 100, 30
STARTS = [0.01, 0.1, 1.0, 10.0, 100.0]
APART = [0.01, 1.0, 100.0]
DEFAULT = str(BayesianSVC().tune)
TUNERS: dict[str, dict[str, Any]] = {
    "logistic": {"tune": "logistic"},
    "loo": {"tune": "loo"},
    "bound": {"tune": "bound"},
    "bound-steps": {"tune": "bound-steps", "loss": "hinge-augmented"},
}
TARGETS = {"spread of starts": 0.10, "standard errors above the best": 1.0, "grid's time / tuning's": 50.0}


class Tuned(NamedTuple):
    """What a tuner found from each start, and the mean validation loss from the default one."""

    scales: dict[float, float]
    seconds: float
    loss: float


class Search(NamedTuple):
    """The grid: length-scales, losses of shape (scales, folds), and the seconds of all fits and predictions."""

    scales: np.ndarray
    losses: np.ndarray
    seconds: float

    @property
    def mean(self) -> np.ndarray:
        return self.losses.mean(axis=1)

    @property
    def error(self) -> np.ndarray:
        """Standard errors over folds."""
        return self.losses.std(axis=1, ddof=1) / self.losses.shape[1] ** 0.5


def model(scale: float, **settings: Any) -> BayesianSVC:
    return BayesianSVC(RBF(float(scale)), n_inducing=POINTS, n_jobs=1, random_state=0, **settings)


def validation_losses(X: np.ndarray, y: np.ndarray, scale: float, loss: str = "hinge") -> list[float]:
    """The log loss of each of ten folds, the kernel held."""
    losses = []
    for train, test in StratifiedKFold(10, shuffle=True, random_state=0).split(X, y):
        fitted = model(scale, loss=loss, tune=None).fit(X[train], y[train])
        losses.append(quality(y[test], fitted.predict_proba(X[test])).log_loss)
    return losses


def search(X: np.ndarray, y: np.ndarray, size: int) -> Search:
    scales = X.shape[1] ** 0.5 * np.geomspace(0.01, 100, size)
    seconds, losses = timed(lambda: [validation_losses(X, y, scale) for scale in scales])
    return Search(scales, np.array(losses), seconds)


def tuned(X: np.ndarray, y: np.ndarray, settings: dict[str, Any]) -> Tuned:
    scales, seconds = {}, {}
    for start in STARTS:
        fitted = model(start * X.shape[1] ** 0.5, **settings)
        seconds[start], _ = timed(lambda fitted=fitted: fitted.fit(X, y))
        scales[start] = float(np.exp(fitted.kernel_.theta[0]))
    repeats = [timed(lambda: model(X.shape[1] ** 0.5, **settings).fit(X, y))[0] for _ in range(2)]
    losses = validation_losses(X, y, scales[1.0], settings.get("loss", "hinge"))
    return Tuned(scales, float(np.median([seconds[1.0], *repeats])), float(np.mean(losses)))


def summary(grid: Search, one: Tuned) -> dict[str, float]:
    best = int(grid.mean.argmin())
    apart = [one.scales[start] for start in APART]
    return {
        "spread of starts": round(max(apart) / min(apart) - 1, 4),
        "standard errors above the best": round(float((one.loss - grid.mean[best]) / grid.error[best]), 2),
        "grid's time / tuning's": round(grid.seconds / one.seconds, 1),
    }


def show(name: str, grid: Search, found: dict[str, Tuned]) -> None:
    best = int(grid.mean.argmin())
    print(
        f"{name}: best of the grid at {grid.scales[best]:.3g}, validation loss {grid.mean[best]:.4f} "
        f"(standard error {grid.error[best]:.4f}), {grid.seconds:.1f} s\n"
    )
    rows = []
    for tuner, one in found.items():
        measures = summary(grid, one)
        scales = (f"{one.scales[start]:.4g}" for start in STARTS)
        rows.append([tuner, *scales, f"{one.loss:.4f}", f"{one.seconds:.3f}", *map(str, measures.values())])
    print_table(["tuner", *(f"from x {start:g}" for start in STARTS), "loss", "seconds", *TARGETS], rows)
    print()


def draw(results: dict[str, tuple[Search, dict[str, Tuned]]]) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6 * len(results), 4.5), dpi=100, layout="constrained")
    panels = figure.subplots(1, len(results), squeeze=False)[0]
    for ax, (name, (grid, found)) in zip(panels, results.items(), strict=True):
        ax.fill_between(grid.scales, grid.mean - grid.error, grid.mean + grid.error, alpha=0.2, linewidth=0)
        ax.plot(grid.scales, grid.mean, label="grid, 10-fold cross-validation")
        for (tuner, one), marker in zip(found.items(), "osD^", strict=True):
            ax.plot(one.scales[1.0], one.loss, marker, label=f"tuned: {tuner}", markersize=7, linestyle="none")
        ax.set(xscale="log", xlabel="length-scale", ylabel="validation log loss")
        ax.set_title(name, loc="left")
        ax.legend(fontsize="small", edgecolor="none")
    return figure


def main() -> None:
    args = arguments(__doc__)
    warnings.simplefilter("ignore")  # kernels at the ends of the grid need jitter and many passes
    results, value = {}, {}
    with threadpool_limits(1):
        for name in TABLES[:1] if args.quick else TABLES:
            X, y = load(args.data, name)
            X = standardised(X)
            grid = search(X, y, 6 if args.quick else GRID)
            found = {tuner: tuned(X, y, settings) for tuner, settings in TUNERS.items()}
            show(name, grid, found)
            results[name], value[name] = (grid, found), summary(grid, found[DEFAULT])
    save_picture(draw(results), "wenzel_fig2", args.quick)
    ok = all(
        one[key] >= target if key.startswith("grid") else one[key] <= target
        for one in value.values()
        for key, target in TARGETS.items()
    )
    report("wenzel_fig2", value, TARGETS, ok)


if __name__ == "__main__":
    main()
