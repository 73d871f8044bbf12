"""``softmargin fit``."""

# No `from __future__ import annotations`: typer reads the annotations.

import sys
import time
import warnings
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from ..design.formula import read, terms_of
from ..splits import held_out
from ..tables import TableClassifier, read_table, write_table
from ..tables.classifier import encoder_for
from ..tables.encoder import LEFT_OUT
from .asking import (
    MODELS,
    As_json,
    Categorical,
    Data,
    Drop,
    Keep,
    Seed,
    Target,
    Weight,
    ask_for_target,
    groups_of,
    is_same,
    labelled,
    model_file,
    names,
    refuse_clashes,
    table_file,
    tell_of_seen,
    whole_list,
    without,
)
from .showing import print_json, print_preparation, say

#: With fewer rows, leave-one-out estimates are too optimistic, since every row has also been used to tune the kernel.
_FEW_ROWS = 500
#: The share of rows that is held out by default.
_SHARE = 0.25


def fit(
    data: Data,
    target: Target = None,
    model: Annotated[str, typer.Option(help=f"Type of model: {', '.join(MODELS)}.")] = "svc",
    formula: Annotated[
        str | None, typer.Option(help="For mixed models: 'ill ~ month + dose + (1 | patient)'.", show_default=False)
    ] = None,
    groups: Annotated[
        str,
        typer.Option(
            metavar="COLUMNS",
            callback=whole_list,
            help="For mixed models without a formula: the columns with the groups of each row.",
        ),
    ] = "",
    out: Annotated[Path, typer.Option(help="File for the model.")] = Path("model.sm"),
    hold_out: Annotated[
        Path | None,
        typer.Option(help="Hold out some rows and write them to this file, for evaluation.", show_default=False),
    ] = None,
    share: Annotated[
        float | None,
        typer.Option(min=0.01, max=0.99, help=f"Share of rows to hold out, by default {_SHARE}.", show_default=False),
    ] = None,
    split_by: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Hold out whole groups, such as patients; only mixed models use this column in the fit.",
            show_default=False,
        ),
    ] = None,
    weight: Weight = None,
    categorical: Categorical = "",
    drop: Drop = "",
    keep: Keep = "",
    loss: Annotated[str | None, typer.Option(help="Loss: hinge, logistic or probit.", show_default=False)] = None,
    n_inducing: Annotated[
        int | None, typer.Option(min=1, help="Number of inducing points of a kernel model.", show_default=False)
    ] = None,
    class_weight: Annotated[
        str | None, typer.Option(help="'balanced' to give all classes the same weight.", show_default=False)
    ] = None,
    max_time: Annotated[float | None, typer.Option(help="Time limit in seconds.", show_default=False)] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="File to save progress in, to resume after a crash.", show_default=False)
    ] = None,
    n_jobs: Annotated[int | None, typer.Option(help="Number of threads.", show_default=False)] = None,
    device: Annotated[str | None, typer.Option(help="'cuda' for a graphics processor.", show_default=False)] = None,
    seed: Seed = 0,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but the result.")] = False,
    as_json: As_json = False,
) -> None:
    """Fit a model to a table and save it.

    Text, categories, dates and missing values are encoded; the encoding is shown, and saved with the model.
    """
    model_file(out, inputs=[data, checkpoint])
    if checkpoint is not None and is_same(checkpoint, data):
        raise typer.BadParameter(f"{checkpoint} is the table: write to another file.", param_hint="--checkpoint")
    if hold_out is not None:
        table_file(hold_out, inputs=[data, out, checkpoint], option="--hold-out")
    for option, value in (("--split-by", split_by), ("--share", share)):
        if hold_out is None and value is not None:
            raise typer.BadParameter("requires --hold-out.", param_hint=option)
    wishes = {"loss": loss, "n_inducing": n_inducing, "class_weight": class_weight, "max_time": max_time}
    wishes |= {"checkpoint": checkpoint, "n_jobs": n_jobs, "device": device}
    target, classifier = _chosen(data, model, target, formula, groups, wishes, seed, not quiet and sys.stderr.isatty())
    features: dict[str, Any] = {"--categorical": names(categorical), "--keep": names(keep)}
    features |= {"--formula": _columns_in(formula)} if formula else {"--groups": names(groups)}
    others: dict[str, Any] = {"--drop": names(drop), "--target": [target], "--weight": [weight]}
    (features if model == "mixed" else others)["--split-by"] = [split_by]
    refuse_clashes(others | features, list(others))
    frame = without(read_table(data, texts=names(categorical)), drop)
    rows, y, weights = labelled(frame, target, weight)
    members = groups_of(rows, split_by, "--split-by")
    if split_by is not None and model != "mixed":
        rows = rows.drop(columns=split_by)
    unseen: Any = None
    if hold_out is not None:
        kept, held = _split(y, share or _SHARE, seed, members)
        unseen, aside = frame[frame[target].notna()].iloc[held], rows.iloc[held]
        rows, y = rows.iloc[kept].reset_index(drop=True), y[kept]
        weights = None if weights is None else weights[kept]
    table = TableClassifier(classifier, encoder_for(classifier, names(categorical), names(keep)))
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=LEFT_OUT)  # the encoding that is printed says so
        table.fit(rows, y, sample_weight=weights)
    seconds, table.target_ = time.perf_counter() - start, target
    table.save(out)
    if hold_out is not None:
        write_table(unseen, hold_out)
        tell_of_seen(table, aside, "" if split_by else " --split-by COLUMN keeps rows of one group on the same side.")
    if not (quiet or as_json):
        print_preparation(table.encoder_.describe())
    _tell(table, len(rows), seconds, out, hold_out, as_json)


def _chosen(
    data: Path,
    word: str,
    target: str | None,
    formula: str | None,
    groups: str,
    wishes: dict[str, Any],
    seed: int,
    verbose: bool,
) -> tuple[str, Any]:
    """The name of the label column, and the classifier."""
    if word not in MODELS:
        raise typer.BadParameter(f"{word!r} is not one of {', '.join(MODELS)}.", param_hint="--model")
    given: dict[str, Any] = {}
    if word == "mixed":
        if bool(formula) == bool(names(groups)):
            raise typer.BadParameter("a mixed model needs --formula or --groups, not both.", param_hint="--model")
        left = read(formula).response if formula else None
        if None not in (left, target) and left != target:
            raise typer.BadParameter(
                f"the labels of --formula are in {left!r}, not in {target!r}.", param_hint="--target"
            )
        target = left or target
        given = {"formula": f"~ {formula.rpartition('~')[2].strip()}"} if formula else {"groups": list(names(groups))}
    elif formula or groups:
        hint = "--formula" if formula else "--groups"
        raise typer.BadParameter(
            "only --model mixed has groups; to hold out whole groups, use --split-by.", param_hint=hint
        )
    if target is None:
        raise ask_for_target(data)
    classifier = MODELS[word](**given, verbose=verbose, random_state=seed)
    known = classifier.get_params()
    for name, value in wishes.items():
        if value is not None:
            if name not in known:
                raise typer.BadParameter(
                    f"--model {word} has no such option.", param_hint=f"--{name.replace('_', '-')}"
                )
            classifier.set_params(**{name: value})
    return target, classifier


def _columns_in(formula: str) -> set[str]:
    """The columns on the right of a formula."""
    parsed = read(formula)
    varying = [term for random in parsed.random for term in terms_of(random.varying)]
    names = {name for term in [*parsed.fixed, *varying] for name in getattr(term, "var_names", ())}
    return names.union(parsed.splines, *(random.grouping for random in parsed.random))


def _split(y: Any, share: float, seed: int, members: Any) -> tuple[np.ndarray, np.ndarray]:
    """Indices of the rows to fit and of the rows to hold out, the latter a proportion ``share``."""
    try:
        return held_out(y, share, seed, members)
    except ValueError as error:
        raise ValueError(
            f"A share of {share:g} (--share) cannot be held out such that all classes are on both sides: {error}"
        ) from error


def _tell(table: Any, n_rows: int, seconds: float, out: Path, hold_out: Path | None, as_json: bool) -> None:
    model = table.classifier_
    loo = getattr(model, "loo_log_loss_", None)
    if as_json:
        print_json(
            {
                "model": type(model).__name__,
                "rows": n_rows,
                "classes": table.classes_.tolist(),
                "columns": table.encoder_.describe().to_dict("records"),
                "leave_one_out_log_loss": loo,
                "bound": model.bound_,
                "passes": model.n_iter_,
                "stop_reason": model.stop_reason_,
                "seconds": seconds,
                "out": str(out),
                "hold_out": None if hold_out is None else str(hold_out),
            }
        )
        return
    few = " (too optimistic for so few rows)" if n_rows < _FEW_ROWS else ""
    expected = "" if loo is None else f" Leave-one-out log loss: {loo:.3f}{few}."
    classes = ", ".join(map(str, table.classes_))
    say(f"{type(model).__name__}: {n_rows:,} rows, classes {classes}, {seconds:.1f} s.{expected}")
    say(f"Model: {out}")
    if hold_out is not None:
        say(f"Held out: {hold_out}\nNext: softmargin evaluate {out} {hold_out}")
