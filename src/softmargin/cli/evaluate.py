"""``softmargin evaluate``."""

from typing import Annotated

import typer

from .. import evaluation
from ..parameters import how_many
from .asking import As_json, Data, Groups, ModelFile, Seed, Target, Weight, evaluable, model_and_rows
from .showing import print_evaluation, print_json, say


def evaluate(
    model: ModelFile,
    data: Data,
    target: Target = None,
    weight: Weight = None,
    groups: Groups = None,
    bootstrap: Annotated[int, typer.Option(min=1, help="Number of bootstrap samples for the intervals.")] = 500,
    seed: Seed = 0,
    as_json: As_json = False,
) -> None:
    """Evaluate a model on rows with labels.

    Error, balanced error, AUC, log loss, Brier score and calibration error, each with a bootstrap interval.  With
    --groups, whole groups are resampled, as rows of one group are not independent.
    """
    fitted, frame = model_and_rows(model, data)
    rows, y, weights, members = evaluable(fitted, frame, target, weight, groups)
    found = evaluation.evaluate(
        y,
        fitted.predict_proba(rows),
        classes=fitted.classes_,
        sample_weight=weights,
        groups=members,
        n_bootstrap=bootstrap,
        random_state=seed,
    )
    if as_json:
        print_json(found.as_dict())
        return
    print_evaluation(found)
    of = "" if members is None else f" of {how_many(len(set(members.tolist())), 'group')}"
    drawn = f"{how_many(found.n_rows, 'row')}{of}; intervals from {bootstrap} bootstrap samples."
    say(f"{drawn} Results on training rows are too optimistic.")
