"""Claim: Stein particles are as spread out as the posterior: their variances are within 25 % of those of Gibbs draws.

A linear model with weights N(0, I) a priori and the hinge, log p(w) = -|w|^2 / 2 - 2 sum_i max(0, 1 - y_i x_i'w), in
d = 10 and d = 50 columns, 20 d rows: normal columns, labels from a logistic function of x'w, w ~ N(0, 4 I / d).  Five
tables of each.  The reference is ``inference="gibbs"`` of `BayesianLinearSVC` with ``prior=1.0`` and unscaled columns,
four chains of 5,000 draws.  That it has this density is checked first, in two columns, where a grid gives the
variances.  The largest R-hat and the smallest effective number of independent draws (for the squares about the mean)
say how far it can be trusted: variances are known to about sqrt(2 / worth), worth being that number.

Particles, S = 50, 100, 200, 400, start as draws from the prior and see all rows in every step:

* mixed: `Whitened(MixedStein())`, the default of `sample_density`.  It needs S > d; for S = d = 50 the default is the
  coordinatewise one, marked by a star.
* rbf: `RBFStein()`, the kernel of the paper with the median as its width, by Adagrad.

The ratio is the particles' variance (divisor S) over the chains': the least, mean and greatest over coordinates and
tables, and the root mean square difference of means in posterior standard deviations.

Target: for either d there is an S with which mixed has all ratios within .75 and 1.25, at most 400 = 8 d.

    python benchmarks/stein_gibbs.py [--quick]
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from common import arguments, print_table, report, timed
from softmargin import BayesianLinearSVC
from softmargin.diagnostics import ess, r_hat
from softmargin.stein import Adagrad, RBFStein, default_kernel, sample_density

LOW, HIGH = 0.75, 1.25
N_COLUMNS, ROWS_PER_COLUMN, N_TABLES = (10, 50), 20, 5
N_PARTICLES = (50, 100, 200, 400)
KERNELS = ("mixed", "rbf")
#: Steps by Adagrad of an RBF, which has no natural length of step.
RBF_RULE, RBF_STEPS = Adagrad(0.2), 1500


class Rows(NamedTuple):
    """Rows and labels, -1 and +1."""

    X: np.ndarray
    y: np.ndarray

    def log_density_and_score(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of weights, one particle in each row."""
        late = 1 - (w @ self.X.T) * self.y
        value = -0.5 * np.sum(w * w, axis=1) - 2 * np.sum(np.maximum(late, 0), axis=1)
        return value, 2 * ((late > 0) * self.y) @ self.X - w


def drawn(d: int, n: int, seed: int) -> Rows:
    rng = np.random.default_rng([seed, d])
    X, w = rng.standard_normal((n, d)), rng.standard_normal(d) * 2 / d**0.5
    return Rows(X, np.where(rng.random(n) < 1 / (1 + np.exp(-X @ w)), 1.0, -1.0))


class Spread(NamedTuple):
    """Means and variances of the weights."""

    mean: np.ndarray
    variance: np.ndarray


class Chains(NamedTuple):
    """What Gibbs draws say: the worst R-hat, the least worth of a variance, and seconds."""

    spread: Spread
    r_hat: float
    worth: float
    seconds: float


def gibbs(rows: Rows, n_draws: int) -> Chains:
    model = BayesianLinearSVC(
        loss="hinge",
        inference="gibbs",
        prior=1.0,
        fit_intercept=False,
        standardize=False,
        link="logistic",
        n_draws=n_draws,
        n_chains=4,
        warm_up=n_draws // 10,
        n_jobs=1,
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # R-hat is in the table
        seconds, _ = timed(lambda: model.fit(*rows))
    draws: Any = model.draws_
    chains = draws.seen_chains
    squares = (chains - chains.mean(axis=(0, 1))) ** 2
    spread = Spread(chains.mean(axis=(0, 1)), squares.mean(axis=(0, 1)))
    return Chains(spread, float(r_hat(chains).max()), float(ess(squares).min()), seconds)


def by_grid(rows: Rows, side: int = 401, reach: float = 4.0) -> Spread:
    """The moments in two columns, by sums over a grid."""
    line = np.linspace(-reach, reach, side)
    w = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
    value = np.concatenate([rows.log_density_and_score(part)[0] for part in np.array_split(w, 200)])
    weight = np.exp(value - value.max())
    weight /= weight.sum()
    mean = weight @ w
    return Spread(mean, weight @ (w - mean) ** 2)


def particles(rows: Rows, n_particles: int, kernel: str, seed: int) -> tuple[Spread, float, bool]:
    """Their moments, the seconds, and whether they came to rest."""
    d = rows.X.shape[1]
    start = np.random.default_rng([seed, n_particles]).standard_normal((n_particles, d))
    settings: dict[str, Any] = {"kernel": default_kernel(n_particles, d)}
    if kernel == "rbf":
        settings = {"kernel": RBFStein(), "rule": RBF_RULE, "n_steps": RBF_STEPS, "tolerance": 0.0}
    seconds, found = timed(lambda: sample_density(rows.log_density_and_score, start, **settings))
    return Spread(found.particles.mean(axis=0), found.particles.var(axis=0)), seconds, found.converged


class Found(NamedTuple):
    """Ratios of variances and differences of means, by table and coordinate; and the seconds of each table."""

    ratios: np.ndarray
    differences: np.ndarray
    seconds: np.ndarray

    @property
    def ok(self) -> bool:
        return bool(self.ratios.min() >= LOW and self.ratios.max() <= HIGH)

    def cells(self) -> list[str]:
        low, mean, high = self.ratios.min(), self.ratios.mean(), self.ratios.max()
        off = np.sqrt(np.mean(self.differences**2))
        return [*(f"{value:.2f}" for value in (low, mean, high, off)), f"{np.median(self.seconds):.2f}"]


def compare(
    tables: list[Rows], referees: list[Spread], run: Callable[[Rows, int], tuple[Spread, float, bool]]
) -> Found:
    ratios, differences, times = [], [], []
    for seed, (rows, truth) in enumerate(zip(tables, referees, strict=True)):
        spread, seconds, _ = run(rows, seed)
        ratios.append(spread.variance / truth.variance)
        differences.append((spread.mean - truth.mean) / truth.variance**0.5)
        times.append(seconds)
    return Found(np.array(ratios), np.array(differences), np.array(times))


def check_referee(n_draws: int) -> float:
    """The greatest relative error of its variances where they are known."""
    rows = drawn(2, 40, 0)
    truth, chains = by_grid(rows), gibbs(rows, n_draws)
    errors = chains.spread.variance / truth.variance - 1
    off = (chains.spread.mean - truth.mean) / truth.variance**0.5
    print(
        f"two columns, 40 rows: Gibbs variances over those of a grid {', '.join(f'{1 + e:.3f}' for e in errors)}, ",
        end="",
    )
    print(f"means off by {', '.join(f'{o:+.3f}' for o in off)} deviations; worth {chains.worth:.0f} draws\n")
    return float(np.abs(errors).max())


def main() -> None:
    args = arguments(__doc__)
    columns, numbers, n_tables, n_draws = N_COLUMNS, N_PARTICLES, N_TABLES, 5000
    if args.quick:
        columns, numbers, n_tables, n_draws = (10,), (50, 100), 1, 300
    error = check_referee(n_draws)
    judges, rows, least, value = [], [], {}, {}
    for d in columns:
        tables = [drawn(d, ROWS_PER_COLUMN * d, seed) for seed in range(n_tables)]
        chains = [gibbs(table, n_draws) for table in tables]
        judges.append([f"d = {d}", *_worst(chains)])
        for kernel in KERNELS:
            for S in numbers:
                run = lambda table, seed, S=S, kernel=kernel: particles(table, S, kernel, seed)  # noqa: E731
                found = compare(tables, [one.spread for one in chains], run)
                star = "*" if kernel == "mixed" and d >= S else ""
                rows.append([f"d = {d}, {kernel}", f"{S}{star}", *found.cells(), "yes" if found.ok else ""])
                key = f"{kernel}, d={d}, S={S}"
                value[key] = [round(float(v), 3) for v in (found.ratios.min(), found.ratios.mean(), found.ratios.max())]
                if kernel == "mixed" and found.ok:
                    least.setdefault(f"d={d}", S)
    print_table(["the referee", "tables", "worst R-hat", "least worth", "seconds"], judges)
    print()
    header = ["variance over Gibbs's", "S", "least", "mean", "most", "means off", "seconds", "within 25 %"]
    print_table(header, rows)
    print()
    ok = len(least) == len(columns) and error < 0.1
    value = {"least S within 25 %": least, "error of the referee": round(error, 3), "ratios": value}
    report("stein_gibbs", value, f"all ratios within {LOW} and {HIGH} for some S <= {numbers[-1]}", ok)


def _worst(chains: list[Chains]) -> list[Any]:
    r, worth = max(one.r_hat for one in chains), min(one.worth for one in chains)
    return [len(chains), f"{r:.3f}", f"{worth:.0f}", f"{np.median([one.seconds for one in chains]):.1f}"]


if __name__ == "__main__":
    main()
