"""``softmargin report``."""

from pathlib import Path
from typing import Annotated

import typer

from .asking import As_json, Data, Groups, ModelFile, Seed, Target, Weight, evaluable, model_and_rows, out_file
from .showing import print_json, say


def report(
    model: ModelFile,
    data: Data,
    out: Annotated[Path, typer.Option(help="File for the report.")] = Path("report.html"),
    target: Target = None,
    weight: Weight = None,
    groups: Groups = None,
    title: Annotated[str | None, typer.Option(help="Title of the report.", show_default=False)] = None,
    seed: Seed = 0,
    as_json: As_json = False,
) -> None:
    """Write an HTML report on a model and its predictions.

    A single file that needs no network: measures, reliability, ROC, what the model learned, and the rows it is most
    and least certain about.  With --groups, intervals resample whole groups, as in evaluate.
    """
    from .. import report as pages

    out_file(out, "html", "htm", inputs=[model, data])
    fitted, frame = model_and_rows(model, data)
    rows, y, weights, members = evaluable(fitted, frame, target, weight, groups)
    options = {"sample_weight": weights, "groups": members, "random_state": seed}
    path = pages.write(out, fitted, rows, y, title=title, **options)
    if as_json:
        print_json({"out": str(path), "rows": len(rows), "bytes": Path(path).stat().st_size})
    else:
        say(f"Report: {path}")
