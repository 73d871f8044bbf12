"""``softmargin compare``."""

import warnings
from functools import partial
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

from .. import comparison
from ..comparison import OURS, RIVALS, Compared
from ..evaluation import MEASURES
from ..parameters import how_many
from ..tables import TableClassifier, TableEncoder, read_table
from ..tables.encoder import LEFT_OUT
from ..tables.plans import Left
from .asking import (
    As_json,
    Categorical,
    Data,
    Drop,
    Groups,
    Keep,
    Seed,
    Target,
    ask_for_target,
    groups_of,
    labelled,
    names,
    refuse_clashes,
    whole_list,
    without,
)
from .showing import complain, plain_table, print_json, progress, say, with_option

#: The models that are compared by default: all except the slowest.
_USUAL = [name for name in (*OURS, *RIVALS) if name != "BayesianKernelMachine"]
#: Measures that are printed; JSON has all of them.
_SHOWN = ("error", "auc", "log_loss", "brier", "ece")
#: Models that handle missing values themselves.
_KNOW_GAPS = ("BayesianLinearSVC", "random forest", "gradient boosting")


def compare(
    data: Data,
    target: Target = None,
    models: Annotated[
        str,
        typer.Option(
            metavar="NAMES", callback=whole_list, help=f"Comma-separated, from: {', '.join((*OURS, *RIVALS))}."
        ),
    ] = ",".join(_USUAL),
    folds: Annotated[int, typer.Option(min=2, help="Number of folds of the cross-validation.")] = 5,
    rows: Annotated[
        int | None, typer.Option(min=10, help="Compare on a random sample of this many rows.", show_default=False)
    ] = None,
    groups: Groups = None,
    categorical: Categorical = "",
    drop: Drop = "",
    keep: Keep = "",
    n_jobs: Annotated[int | None, typer.Option(help="Number of fits run in parallel.", show_default=False)] = None,
    seed: Seed = 0,
    as_json: As_json = False,
) -> None:
    """Compare models of softmargin and scikit-learn on a table.

    By cross-validation, with default settings and the same folds for all.  With --groups, rows of one group are kept
    in one fold, and the group column is not used as a feature.  AUC is the mean over folds.
    """
    if target is None:
        raise ask_for_target(data)
    chosen = names(models)
    for name in chosen:
        if name not in OURS and name not in RIVALS:
            raise typer.BadParameter(f"{name!r} is not one of {', '.join((*OURS, *RIVALS))}.", param_hint="--models")
    if not chosen:
        raise typer.BadParameter(f"names no model; there are {', '.join((*OURS, *RIVALS))}.", param_hint="--models")
    others: dict[str, Any] = {"--drop": names(drop), "--groups": [groups], "--target": [target]}
    refuse_clashes(others | {"--categorical": names(categorical), "--keep": names(keep)}, list(others))
    X, y, _ = labelled(without(read_table(data, texts=names(categorical)), drop), target, None)
    members = groups_of(X, groups)
    X = X if groups is None else X.drop(columns=groups)
    X, y, members = _sample(X, y, members, rows, seed)
    _refuse_rare(y, folds, target)
    left = _left_out(X, names(categorical), names(keep))
    makers = {name: partial(_made, name, names(categorical), names(keep), left) for name in chosen}
    options: dict[str, Any] = {"groups": members, "n_splits": folds, "random_state": seed, "n_jobs": n_jobs}
    with progress(len(makers) * folds) as advance:
        found = comparison.compare(makers, X, y, progress=partial(advance, data.name), **options)
    if as_json:
        facts = {"table": data.name, "rows": len(y), "folds": folds, "seed": seed, "groups": groups}
        print_json(facts | {"models": [_facts(one) for one in found]})
    else:
        _print(found, f"{data.name} ({len(y):,} x {X.shape[1]})", folds, groups)


def _left_out(X: Any, categorical: tuple[str, ...], keep: tuple[str, ...]) -> tuple[str, ...]:
    """Columns of row numbers or identifiers in the whole table, which are left out in every fold, with a message."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=LEFT_OUT)
        plans = TableEncoder(categorical=categorical, keep=keep).fit(X).plans_
    left = {plan.name: with_option(plan.note, plan.name) for plan in plans if isinstance(plan, Left) and plan.is_guess}
    if left:
        complain(f"{LEFT_OUT}: {', '.join(f'{name!r} ({note})' for name, note in left.items())}.")
    return tuple(left)


def _made(name: str, categorical: tuple[str, ...], keep: tuple[str, ...], drop: tuple[str, ...]) -> TableClassifier:
    encoder = TableEncoder(gaps="keep" if name in _KNOW_GAPS else "fill", categorical=categorical, keep=keep, drop=drop)
    return TableClassifier((OURS | RIVALS)[name](), encoder)


def _sample(X: Any, y: np.ndarray, members: Any, n: int | None, seed: int) -> tuple[Any, np.ndarray, Any]:
    if n is None or n >= len(y):
        return X, y, members
    places = np.sort(np.random.RandomState(seed).permutation(len(y))[:n])
    return X.iloc[places].reset_index(drop=True), y[places], None if members is None else members[places]


def _refuse_rare(y: np.ndarray, folds: int, target: str) -> None:
    labels, counts = np.unique(y, return_counts=True)
    if len(labels) < 2:
        raise ValueError(f"Column {target!r} holds one class only, {labels.tolist()[0]!r}: add rows of another class.")
    if counts.min() < folds:
        rare = labels.tolist()[counts.argmin()]
        fewer = f"use --folds {counts.min()}, or " if counts.min() > 1 else ""
        found = how_many(counts.min(), "row")
        raise ValueError(f"Class {rare!r} of {target!r} has {found}, fewer than there are folds; {fewer}leave it out.")


def _facts(one: Compared) -> dict[str, Any]:
    return {
        "model": one.model,
        "ours": one.ours,
        "first": one.is_first,
        **{name: {"value": e.value, "low": e.low, "high": e.high} for name, e in one.evaluation.measures.items()},
        "log_loss_behind": one.behind,
        "log_loss_behind_se": one.behind_se,
        "fit_seconds": one.seconds,
        "contradictions": one.contradictions,
    }


def _print(found: list[Compared], title: str, folds: int, groups: str | None) -> None:
    say(title)
    shown = plain_table("model", [*(MEASURES[name] for name in _SHOWN), "behind", "fit s"])
    for one in found:
        values = [f"{one.evaluation[name].value:.3f}" for name in _SHOWN]
        behind = "" if one.behind == 0 else f"{one.behind:.3f}±{one.behind_se:.3f}"
        style = "bold" if one.is_first else ""
        shown.add_row(("* " if one.is_first else "  ") + one.model, *values, behind, f"{one.seconds:.2f}", style=style)
    Console(highlight=False).print(shown)
    by, unit = ("", "row by row") if groups is None else (f" by {groups!r}", "group by group")
    say(
        f"{folds}-fold cross-validation{by}, the same folds for all, default settings, one thread. *: best "
        f"log loss, or within one standard error of the difference from it, {unit}. AUC is the mean over folds."
    )
