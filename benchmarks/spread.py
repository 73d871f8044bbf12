"""Claim: the exact hinge's posterior is as wide as it should be; the augmented hinge's is too narrow.

Four real sets, trained on 60 % of the rows (at most 400).  Linear model: unit prior variance in units of the columns'
standard deviations, flat intercept; standard deviations of the coefficients.  Kernel model: ``10 RBF + Constant(1)``,
length-scales the root of the number of columns times their standard deviations, a point at every distinct row; standard
deviations of the latent value at the held-out rows.  The reference is a Gibbs sampler, which draws from the posterior
itself.

The table gives the mean ratio of standard deviations to the sampler's, the root mean square of the difference of means
in units of the sampler's standard deviation, the effective number of independent draws of the sampler (the median over
coefficients or rows), and milliseconds for each fit and for a draw.  ``point`` is expectation-conditional-maximisation.

Target: for either model, the median over sets of the exact hinge's ratio lies within .8 and 1.25, and nearer to 1 (by
its logarithm) than the augmented hinge's.

    python benchmarks/spread.py --data PATH [--quick]
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import train_test_split

from common import arguments, load, print_table, report
from softmargin.chunks import Table
from softmargin.diagnostics import ess
from softmargin.engine import Problem
from softmargin.gaussian import Belief
from softmargin.gibbs import sample
from softmargin.kernels import RBF, Constant
from softmargin.likelihoods import AugmentedHinge, Hinge, PointHinge
from softmargin.priors import Ridge
from softmargin.rows import InducingRows, LinearRows
from softmargin.steps import ascend

SETS = ["raetsch/heart", "raetsch/breast_cancer", "raetsch/diabetis", "raetsch/german"]
LIKELIHOODS = {"exact": Hinge(), "augmented": AugmentedHinge(), "point": PointHinge()}
MOST_ROWS, WARM_UP_SHARE = 400, 0.1
N_DRAWS = {"linear": 8000, "kernel": 2000}
LOW, HIGH = 0.8, 1.25


class Spread(NamedTuple):
    """Means and standard deviations of what is compared: coefficients, or latent values at held-out rows."""

    mean: np.ndarray
    sd: np.ndarray


def linear_problem(X: np.ndarray, y: np.ndarray) -> Problem:
    rows = LinearRows(X.mean(axis=0), X.std(axis=0))
    prior = Ridge(np.append(np.ones(X.shape[1]), 1e-8))
    return Problem(Table.of(X, y, np.ones(len(y)), rows.n_weights), rows, Hinge(), prior)


def kernel_problem(X: np.ndarray, y: np.ndarray) -> Problem:
    length_scale = tuple(X.shape[1] ** 0.5 * X.std(axis=0))
    rows = InducingRows.at(10.0 * RBF(length_scale) + Constant(1.0), np.unique(X, axis=0))
    return Problem(Table.of(X, y, np.ones(len(y)), rows.n_weights), rows, Hinge(), Ridge.isotropic(rows.n_weights))


MODELS = {"linear": linear_problem, "kernel": kernel_problem}


def compared(model: str, problem: Problem, belief: Belief, X_test: np.ndarray) -> Spread:
    if model == "linear":
        return Spread(belief.mean[:-1], belief.variances[:-1] ** 0.5)
    latent = problem.rows.lift(X_test).moments(belief)
    return Spread(latent.mu, latent.v**0.5)


def independent(model: str, problem: Problem, weights: np.ndarray, X_test: np.ndarray) -> float:
    """How many independent draws of the compared quantities the sampler's are worth."""
    chain = weights[:, :-1] if model == "linear" else weights @ problem.rows.lift(X_test[:100]).phi.T
    return float(np.median(ess(chain[None])))


def compare(model: str, X: np.ndarray, y: np.ndarray, X_test: np.ndarray, n_draws: int) -> tuple[dict[str, Any], list]:
    """The mean ratio of each likelihood's standard deviations to the sampler's, and a row of the table."""
    problem, found, times = MODELS[model](X, y), {}, []
    for name, likelihood in LIKELIHOODS.items():
        problem.likelihood = likelihood
        start = time.perf_counter()
        found[name] = ascend(problem, tol=1e-8, max_passes=1000).point.belief
        times.append(time.perf_counter() - start)
    start = time.perf_counter()
    warm_up, rng = int(WARM_UP_SHARE * n_draws), np.random.default_rng(0)
    draws = sample(problem, rng=rng, n_draws=n_draws, warm_up=warm_up, starts=found["exact"])
    times.append((time.perf_counter() - start) / (n_draws + warm_up))
    truth = compared(model, problem, draws.belief, X_test)
    ratios, differences = {}, {}
    for name, belief in found.items():
        spread = compared(model, problem, belief, X_test)
        ratios[name] = float(np.mean(spread.sd / truth.sd))
        differences[name] = float(np.sqrt(np.mean(((spread.mean - truth.mean) / truth.sd) ** 2)))
    worth = independent(model, problem, draws.weights, X_test)
    numbers = [f"{ratios[name]:.3f} / {differences[name]:.3f}" for name in found]
    return ratios, [*numbers, round(worth), *(f"{1e3 * seconds:.3g}" for seconds in times)]


def main() -> None:
    args = arguments(__doc__)
    ratios: dict[str, list[dict[str, Any]]] = {model: [] for model in MODELS}
    table = []
    for name in SETS[:1] if args.quick else SETS:
        X, y = load(args.data, name)
        n_train = 100 if args.quick else min(MOST_ROWS, int(0.6 * len(y)))
        X, X_test, y, _ = train_test_split(X, y, train_size=n_train, random_state=0, stratify=y)
        for model in MODELS:
            found, cells = compare(model, X, y, X_test, N_DRAWS[model] // (10 if args.quick else 1))
            ratios[model].append(found)
            table.append([f"{name.split('/')[1]}, {model}", len(y), *cells])
    of_times = [f"ms {name}" for name in LIKELIHOODS]
    print_table(["sd ratio / difference of means", "rows", *LIKELIHOODS, "worth", *of_times, "ms a draw"], table)
    print()
    medians = {
        model: {name: round(float(np.median([one[name] for one in rows])), 3) for name in LIKELIHOODS}
        for model, rows in ratios.items()
    }
    ok = all(
        LOW <= of_model["exact"] <= HIGH and abs(np.log(of_model["exact"])) < abs(np.log(of_model["augmented"]))
        for of_model in medians.values()
    )
    report("spread", medians, {"exact": [LOW, HIGH], "nearer to 1 than": "augmented"}, ok)


if __name__ == "__main__":
    main()
