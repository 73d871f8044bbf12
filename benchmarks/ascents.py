"""Claim: with many classes, the bound never decreases, and an ascent ends where L-BFGS finds nothing more to gain.

All tables of data/pmlb (duplicates counted once), at most 2,000 random rows, standardised; the default kernel, not
tuned, and 64 points.  Losses: Weston-Watkins with the exact and with the augmented hinge, the bound of Jaakkola and
Jordan one-vs-each and one-versus-rest, softmax.  All are fitted by coordinate ascent over all rows, to a tolerance of
1e-7.  The ascent stops when its last steps predict that less than this remains to be gained, which is below the target.

1. Falls: accepted passes after which the objective is lower by more than 1e-10 of its value (rejected passes are
   counted separately: a guard may evaluate a candidate and reject it).
2. The end: what L-BFGS still gains from there, as a share of the objective.  It moves all means and all factors
   ``R`` of the covariances ``S = R'R`` at once, in units of the final belief, with its own gradients:
   ``dF/dm = h - (P + G) m`` and ``dF/dS = -(P + G - S^-1) / 2``.
3. The start: how far above the ascent the same search ends when it starts at the prior (as a share of the objective;
   negative if it ends below).  It is slow, so it uses 16 points, on tables of at most 400 rows and 5 classes.
4. Crammer-Singer, which has no bound (with the augmented hinge, its default, and with the exact one), settles: in the
   last five sweeps of an ascent to a tolerance of 1e-11, the strongest of the soft rivals changes for no row.

Target: no falls; gains of at most 1e-6, from the end and from the prior; no changes.

    python benchmarks/ascents.py --data PATH [--quick]
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits

from common import arguments, print_table, report, standardised
from pmlb import load_table, table_names
from softmargin.chunks import Table
from softmargin.columns import describe
from softmargin.engine import Problem, objective
from softmargin.gaussian import Belief, ClassBelief
from softmargin.inducing import choose_points
from softmargin.kernels import RBF, Constant
from softmargin.likelihoods import AugmentedHinge, CrammerSinger, Hinge, JaakkolaJordan, OneVersusRest, Rivals, Softmax
from softmargin.monitor import Monitor
from softmargin.priors import Classwise, Ridge
from softmargin.rows import ClasswiseRows, InducingRows
from softmargin.steps import Ascender, Ascent, ascend

LIKELIHOODS = {
    "weston-watkins": Rivals(Hinge()), "ww, augmented": Rivals(AugmentedHinge()),
    "one-vs-each, jj": Rivals(JaakkolaJordan()), "ovr, jj": OneVersusRest(JaakkolaJordan()), "softmax": Softmax(),
}  # fmt: skip
SETTLING = {"crammer-singer": CrammerSinger(), "cs, exact": CrammerSinger(Hinge())}
QUICK = ["iris", "lymphography", "tae"]
MOST_ROWS, POINTS, FEW_POINTS = 2000, 64, 16
SMALL_ROWS, SMALL_CLASSES = 400, 5
#: Of ascents with a bound, of those without, and how near to the best the first should end.
TOLERANCE, TIGHT, WITHIN = 1e-7, 1e-11, 1e-6
MOST_PASSES, ROUNDING = 2000, 1e-10
#: Evaluations of L-BFGS, each of which is a pass: from the end, and from the prior.
FROM_END, FROM_PRIOR = 50, 5000
CALM_SWEEPS = 5


def problem_of(X: np.ndarray, y: np.ndarray, likelihood: Any, n_points: int) -> Problem:
    """A table with the kernel that is the default where none is tuned."""
    weight, n_classes = np.ones(len(y)), int(y.max()) + 1
    columns = describe(X, weight).rounded()
    kernel = 10.0 * RBF() + Constant(1.0)
    kernel = kernel.with_length_scale(tuple(X.shape[1] ** 0.5 * columns.spread))
    points = choose_points(X, weight, columns, kernel, n_points, "kmeans", np.random.RandomState(0))
    rows = ClasswiseRows(InducingRows.at(kernel, points), n_classes)
    prior = Classwise.alike(Ridge.isotropic(rows.n_weights), n_classes)
    return Problem(Table.of(X, y.astype(float), weight, rows.width, rows.least_rows), rows, likelihood, prior)


class Search:
    """The objective as a function of all means and factors, in units of some belief: ``m + R'a`` and ``T R``.

    ``T`` is lower triangular, and its diagonal the exponential of what is searched.
    """

    def __init__(self, problem: Problem, unit: ClassBelief) -> None:
        self.problem, self.unit, self.evaluations = problem, unit, 0
        size = unit.parts[0].n_weights
        self.lower, self.diagonal = np.tril_indices(size), np.diag_indices(size)
        self.best = -np.inf

    def belief(self, x: np.ndarray) -> tuple[ClassBelief, list[np.ndarray]]:
        parts, factors = [], []
        for own, unit in zip(np.split(x, len(self.unit.parts)), self.unit.parts, strict=True):
            a, rest = own[: unit.n_weights], own[unit.n_weights :]
            T = np.zeros_like(unit.root)
            T[self.lower] = rest
            T[self.diagonal] = np.exp(T[self.diagonal])
            root = T @ unit.root
            parts.append(Belief(unit.mean + unit.root.T @ a, root, 2 * np.log(np.diagonal(root)).sum()))
            factors.append(T)
        return ClassBelief(tuple(parts)), factors

    def __call__(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        """Less the objective, and its slopes; for ``R`` those are ``2 R dF/dS``, of which ``T R0`` sees ``R0'``."""
        belief, factors = self.belief(x)
        stats = self.problem.stats(belief)
        value = objective(stats.bound, self.problem.prior, belief)
        self.evaluations, self.best = self.evaluations + 1, max(self.best, value)
        slopes = []
        for k, (part, unit, T) in enumerate(zip(belief.parts, self.unit.parts, factors, strict=True)):
            A = stats.G[k] + np.diag(self.problem.prior.priors[k].precision)
            along = solve_triangular(T, np.eye(len(T)), lower=True, trans="T") - part.root @ A @ unit.root.T
            along[self.diagonal] *= np.diagonal(T)
            slopes += [unit.root @ (stats.h[k] - A @ part.mean), along[self.lower]]
        return -value, -np.concatenate(slopes)

    def run(self, most: int) -> float:
        """The best that L-BFGS finds from the belief whose units these are."""
        size = len(self.unit.parts) * (self.unit.parts[0].n_weights + len(self.lower[0]))
        options = {"maxfun": most, "maxiter": most, "ftol": 1e-15, "gtol": 1e-9, "maxcor": 20}
        minimize(self, np.zeros(size), jac=True, method="L-BFGS-B", options=options)
        return self.best


class Climbed(NamedTuple):
    """An ascent: how many passes, how many of them rejected, after how many the objective was lower, and its gains."""

    passes: int
    rejected: int
    falls: int
    from_end: float
    from_prior: float
    reason: str


def climbed(X: np.ndarray, y: np.ndarray, likelihood: Any) -> Climbed:
    problem, monitor = problem_of(X, y, likelihood, POINTS), Monitor()
    ascent = ascend(problem, tol=TOLERANCE, max_passes=MOST_PASSES, monitor=monitor)
    accepted = np.array([entry["objective"] for entry in monitor.history if entry["accepted"]])
    falls = int(np.sum(np.diff(accepted) < -ROUNDING * np.abs(accepted[1:])))
    from_end = above(ascent, Search(problem, ascent.point.belief).run(FROM_END))
    small = len(y) <= SMALL_ROWS and y.max() < SMALL_CLASSES
    from_prior = from_the_prior(X, y, likelihood) if small else np.nan
    rejected = len(monitor.history) - len(accepted)
    return Climbed(len(monitor.history), rejected, falls, from_end, from_prior, ascent.reason)


def from_the_prior(X: np.ndarray, y: np.ndarray, likelihood: Any) -> float:
    problem = problem_of(X, y, likelihood, FEW_POINTS)
    ascent = ascend(problem, tol=TOLERANCE, max_passes=MOST_PASSES)
    prior = problem.prior.update(*problem.prior.start(problem.table.reference))
    return above(ascent, Search(problem, prior).run(FROM_PRIOR))


def above(ascent: Ascent, found: float) -> float:
    """How far a search ended above an ascent, as a share of the objective."""
    return (found - ascent.point.objective) / abs(ascent.point.objective)


class Settled(NamedTuple):
    """An ascent without a bound: passes, rows whose strongest rival changed, the last pass with a change, and changes
    in the last five."""

    passes: int
    changes: int
    last: int
    recent: int
    reason: str


def settled(X: np.ndarray, y: np.ndarray, likelihood: CrammerSinger) -> Settled:
    problem, changes, strongest = problem_of(X, y, likelihood, POINTS), [], []

    def watched(belief: Any) -> Any:
        now = likelihood.shares(problem.table.y, problem.latent(belief).mu).argmax(axis=1)
        changes.append(int(np.sum(now != strongest[-1])) if strongest else len(y))
        strongest.append(now)
        return problem.stats_together(belief)

    ascent = Ascender(
        watched, problem.prior, likelihood, problem.table.reference,
        tol=TIGHT, max_passes=MOST_PASSES, longest=problem.longest_step,
    ).run()  # fmt: skip
    last = int(np.flatnonzero(changes)[-1]) + 1
    return Settled(len(changes), sum(changes[1:]), last, sum(changes[-CALM_SWEEPS:]), ascent.reason)


def show_climbs(tables: Sequence[str], facts: list[list[Any]], found: dict[str, list[Climbed]]) -> None:
    for name, climbs in found.items():
        print(f"\n{name}\n")
        rows = [
            [table, *fact, c.passes, c.rejected, c.falls, f"{c.from_end:.1e}", f"{c.from_prior:+.1e}", c.reason]
            for table, fact, c in zip(tables, facts, climbs, strict=True)
        ]
        header = ["table", "rows", "classes", "passes", "rejected", "falls", "from the end", "from the prior", "ended"]
        print_table(header, rows)


def show_settled(tables: Sequence[str], facts: list[list[Any]], found: dict[str, list[Settled]]) -> None:
    for name, ends in found.items():
        print(f"\n{name}\n")
        rows = [[table, *fact, *end] for table, fact, end in zip(tables, facts, ends, strict=True)]
        print_table(["table", "rows", "classes", "sweeps", "changes", "last", "in the last five", "ended"], rows)


def some_rows(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """At most 2,000 of a table's rows, standardised; classes that are not among them do not count."""
    X, y = load_table(folder, name)
    chosen = np.random.default_rng(0).permutation(len(y))[:MOST_ROWS]
    return standardised(X[chosen]), np.unique(y[chosen], return_inverse=True)[1]


def main() -> None:
    args = arguments(__doc__)
    tables = QUICK if args.quick else table_names(args.data)
    facts: list[list[Any]] = []
    climbs: dict[str, list[Climbed]] = {name: [] for name in LIKELIHOODS}
    ends: dict[str, list[Settled]] = {name: [] for name in SETTLING}
    start = time.process_time()
    with threadpool_limits(1):
        for table in tables:
            X, y = some_rows(args.data, table)
            facts.append([len(y), int(y.max()) + 1])
            for name, likelihood in LIKELIHOODS.items():
                climbs[name].append(climbed(X, y, likelihood))
            for name, likelihood in SETTLING.items():
                ends[name].append(settled(X, y, likelihood))
    show_climbs(tables, facts, climbs)
    show_settled(tables, facts, ends)
    every = [one for found in climbs.values() for one in found]
    value = {
        "tables": len(tables),
        "falls": sum(one.falls for one in every),
        "largest gain from the end": float(f"{max(one.from_end for one in every):.2g}"),
        "largest gain from the prior": float(f"{np.nanmax([one.from_prior for one in every]):.2g}"),
        "changes": sum(one.recent for found in ends.values() for one in found),
    }
    print(f"\nprocessor time: {time.process_time() - start:.0f} s\n")
    gains = max(value["largest gain from the end"], value["largest gain from the prior"])
    ok = value["falls"] == 0 and gains <= WITHIN and value["changes"] == 0
    report("ascents", value, {"falls": 0, "gains": WITHIN, "changes": 0}, ok)


if __name__ == "__main__":
    main()
