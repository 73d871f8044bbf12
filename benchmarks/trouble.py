"""Claim: for any table, a classifier gives sound probabilities or an error that names the cause.

Tables are drawn by hypothesis, as the tests draw a few of them (``tests/strategies.py``): columns from 1e-300 to 1e300
and of all scales at once, far offsets, constants, ties, denormals, spikes, copies; integers, truth values, half and
single precision; words, categories, dates, gaps, infinities; two rows, one row of a class, nine classes, more columns
than rows; weights of zero, tiny and huge; arrays, sparse matrices, frames of pandas and polars; every classifier with
its losses, priors, tunings, inferences and links, alone or in a `TableClassifier`; all rows at once or two batches.

A fitted model must give finite probabilities from 0 to 1 that sum to 1 within 1e-9, whose largest is ``predict`` and
whose logits are ``decision_function``; finite latent means and variances, and a finite bound; the same for rows 1e200
away and for levels never seen; no warning from NumPy and no warning of any kind twice; all of it within 20 s of
processor time; and, for one table in five, exactly the same from a second fit.  Any other table must be refused by a
``ValueError`` or ``TypeError`` of this library or of scikit-learn that names a column, row, class, label, weight or
parameter.  Whatever breaks this is reduced to as few rows, columns and settings as still break it in the same way, and
printed.

    python benchmarks/trouble.py [--n 10000] [--seed 0] [--minutes 600] [--jobs 1] [--journal FILE] [--quick]

With a journal, a run goes on where the last one ended.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pandas as pd
from hypothesis import HealthCheck, Phase, given, settings
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from common import arguments, print_table, report

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from promises import outcome  # which the tests share
from strategies import Trouble, troubles

N, N_QUICK, BATCH = 10_000, 100, 50
#: Seconds of the processor that cutting down one table may take, and how long a refusal is shown.
CUTTING, SHOWN = 20.0, 150


def drawn(seed: int, n: int) -> list[Trouble]:
    """The tables of one seed."""
    kept: list[Trouble] = []

    @hypothesis.seed(seed)
    @settings(
        max_examples=n, phases=[Phase.generate], database=None, deadline=None, suppress_health_check=list(HealthCheck)
    )
    @given(troubles())
    def keep(trouble: Trouble) -> None:
        kept.append(trouble)

    keep()
    return kept[:n]


def tried(seed: int, n: int, known: set[str]) -> dict[str, Any]:
    """What became of the tables of one seed: counts, failures that are not known yet, and the slowest fit."""
    counts: Counter[str] = Counter()
    failures: dict[str, str] = {}
    slowest = (0.0, "")
    models: Counter[str] = Counter()
    with threadpool_limits(1):
        for trouble in drawn(seed, n):
            start = time.process_time()
            kind, words = outcome(trouble)
            taken = time.process_time() - start
            slowest = max(slowest, (taken, f"{one_line(trouble.model)}; {trouble.made_of}"))
            counts[f"{kind}: {words}" if words else kind] += 1
            models[type(trouble.model).__name__] += 1
            if kind == "broken" and words not in known | set(failures):
                failures[words] = shown(cut_down(trouble, words))
    return {"seed": seed, "counts": counts, "failures": failures, "slowest": slowest, "models": models}


# Cutting down -------------------------------------------------------------------------------------


def cut_down(trouble: Trouble, words: str) -> Trouble:
    """The smallest table found that breaks the same promise: halves of rows, columns and settings go, while it does."""
    end, smaller = time.process_time() + CUTTING, True
    while smaller:
        smaller = False
        for candidate in parts(trouble):
            if time.process_time() > end:
                return trouble
            if _breaks(candidate, words):
                trouble, smaller = candidate, True
                break
    return trouble


def _breaks(trouble: Trouble, words: str) -> bool:
    try:
        return outcome(trouble) == ("broken", words)
    except Exception:  # a part that is no table
        return False


def parts(trouble: Trouble) -> Iterator[Trouble]:
    """Tables with less in them, the boldest cuts first."""
    n = len(trouble.y)
    for size in (n // 2, n // 4, 1):
        for start in range(0, n, max(size, 1)) if 0 < size < n - 1 else ():
            yield _of_rows(trouble, np.r_[0:start, start + size : n])
    inner = getattr(trouble.model, "classifier", trouble.model)
    if inner is not trouble.model:
        yield replace(trouble, model=inner)
    if trouble.weight is not None:
        yield replace(trouble, weight=None)
    usual = type(inner)(random_state=0)
    for name, value in inner.get_params(deep=False).items():
        if name != "random_state" and repr(value) != repr(getattr(usual, name)):
            simpler = clone(trouble.model)
            (
                simpler if simpler is not inner and inner is trouble.model else getattr(simpler, "classifier", simpler)
            ).set_params(**{name: getattr(usual, name)})
            yield replace(trouble, model=simpler)
    width = np.shape(trouble.X)[1]
    for column in range(width if width > 1 else 0):
        keep = [other for other in range(width) if other != column]
        yield replace(trouble, X=_columns(trouble.X, keep), new=_columns(trouble.new, keep))


def _of_rows(trouble: Trouble, rows: np.ndarray) -> Trouble:
    X = [trouble.X[row] for row in rows] if isinstance(trouble.X, list) else (
        trouble.X.iloc[rows] if isinstance(trouble.X, pd.DataFrame) else trouble.X[rows]
    )  # fmt: skip
    weight = None if trouble.weight is None else trouble.weight[rows]
    return replace(trouble, X=X, y=trouble.y[rows], weight=weight)


def _columns(X: Any, keep: list[int]) -> Any:
    if isinstance(X, list):
        return [[row[column] for column in keep] for row in X]
    return X.iloc[:, keep] if isinstance(X, pd.DataFrame) else X[:, keep]


def shown(trouble: Trouble) -> str:
    """A table and its model as something to paste."""
    X = trouble.X.toarray() if hasattr(trouble.X, "toarray") else trouble.X
    if hasattr(X, "columns"):
        X = {name: X[name].to_list() for name in X.columns} if len(set(X.columns)) == len(X.columns) else str(X)
    table = f"X = {X if isinstance(X, (dict, str)) else np.asarray(X).tolist()}"
    rows = f"{type(trouble.X).__name__}{' in two batches' if trouble.stream else ''}"
    weight = "" if trouble.weight is None else f", weight = {np.asarray(trouble.weight).tolist()}"
    return f"{one_line(trouble.model)} ({rows})\n    {table}\n    y = {trouble.y.tolist()}{weight}"


def one_line(model: Any) -> str:
    return " ".join(repr(model).split())


# The run ------------------------------------------------------------------------------------------


def results(n: int, minutes: float, journal: Path | None, seed: int = 0, jobs: int = 1) -> list[dict[str, Any]]:
    """What became of batch after batch, in processes of their own, until there are enough tables or no time."""
    done = [json.loads(line) for line in journal.read_text().splitlines()] if journal and journal.exists() else []
    end = time.perf_counter() + 60 * minutes
    with ProcessPoolExecutor(max_workers=jobs) as pool:
        while sum(sum(each["counts"].values()) for each in done) < n and time.perf_counter() < end:
            known = {words for each in done for words in each["failures"]}
            seeds = range(seed + len(done), seed + len(done) + jobs)
            for found in pool.map(partial(tried, n=min(BATCH, n), known=known), seeds):
                done.append(json.loads(json.dumps(found)))
                if journal is not None:
                    with journal.open("a") as file:
                        file.write(json.dumps(found) + "\n")
    return done


def main() -> None:
    def extend(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--n", type=int, default=N, help="how many tables")
        parser.add_argument("--minutes", type=float, default=600.0, help="no batch begins later than this")
        parser.add_argument("--seed", type=int, default=0, help="of the first batch of fifty")
        parser.add_argument("--jobs", type=int, default=1, help="processes at once")
        parser.add_argument("--journal", type=Path, help="a file of what was found, to go on from")

    chosen = arguments(__doc__, extend)
    done = results(N_QUICK if chosen.quick else chosen.n, chosen.minutes, chosen.journal, chosen.seed, chosen.jobs)
    counts: Counter[str] = sum((Counter(each["counts"]) for each in done), Counter())
    models: Counter[str] = sum((Counter(each["models"]) for each in done), Counter())
    n, kinds = sum(counts.values()), Counter[str]()
    for words, count in counts.items():
        kinds[words.partition(":")[0]] += count
    print_table(["outcome", "tables"], [[kind, kinds[kind]] for kind in ("fitted", "refused", "broken")])
    print()
    print_table(["classifier", "tables"], [list(each) for each in models.most_common()])
    print()
    refusals = [(words, count) for words, count in counts.most_common() if words.startswith("refused")]
    print_table(["refusal (# for numbers)", "tables"], [[words[9 : 9 + SHOWN], count] for words, count in refusals])
    print("\nslowest:")
    for taken, what in sorted((each["slowest"] for each in done), reverse=True)[:5]:
        print(f"  {taken:.1f} s  {what}")
    for words, example in {k: v for each in done for k, v in each["failures"].items()}.items():
        print(f"\n{counts[f'broken: {words}']} x {words}\n  {example}")
    print()
    report("tables that break a promise", kinds["broken"] / n, f"0 of {n:,}", kinds["broken"] == 0)


if __name__ == "__main__":
    main()
