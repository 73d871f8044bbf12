"""``softmargin predict``."""

import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from ..parameters import how_many
from ..tables import write_table
from .asking import As_json, Data, ModelFile, column, columns_of, model_and_rows, names, table_file, whole_list
from .showing import print_json, say


def predict(
    model: ModelFile,
    data: Data,
    out: Annotated[
        Path | None, typer.Option(help="File for the predictions; by default, CSV is printed.", show_default=False)
    ] = None,
    keep: Annotated[
        str, typer.Option(metavar="COLUMNS", callback=whole_list, help="Comma-separated columns to copy to the output.")
    ] = "",
    latent: Annotated[
        bool, typer.Option("--latent", help="Add the mean and standard deviation of the latent function.")
    ] = False,
    as_json: As_json = False,
) -> None:
    """Predict the class of each row of a table.

    Gives the predicted class and the probabilities of all classes.
    """
    if out is not None:
        table_file(out, inputs=[model, data])
    fitted, frame = model_and_rows(model, data)
    kept = {name: column(frame, name, "--keep").to_numpy() for name in names(keep)}
    found = _predictions(fitted, columns_of(fitted, frame), kept, latent)
    if out is not None:
        write_table(found, out)
        if as_json:
            print_json({"out": str(out), "rows": len(found)})
        else:
            say(f"{how_many(len(found), 'prediction')}: {out}")
    elif as_json:
        print_json(found.to_dict("records"))
    else:
        sys.stdout.write(found.to_csv(index=False))


def _predictions(model: Any, rows: Any, kept: dict[str, Any], latent: bool) -> Any:
    import pandas as pd

    proba = model.predict_proba(rows)
    columns = {"predicted": model.classes_[proba.argmax(axis=1)]}
    columns |= {f"probability of {label}": proba[:, k] for k, label in enumerate(model.classes_)}
    if latent:
        mean, variance = model.latent_mean_and_variance(rows)
        many = mean.ndim > 1
        for k, label in enumerate(model.classes_ if many else [""]):
            of = f" of {label}" if many else ""
            columns[f"latent mean{of}"] = mean[:, k] if many else mean
            columns[f"latent sd{of}"] = np.sqrt(variance[:, k] if many else variance)
    twice = [name for name in kept if name in columns]
    if twice:
        raise ValueError(
            f"The predictions have a column {twice[0]!r} of their own: rename the one of the table (--keep)."
        )
    return pd.DataFrame(kept | columns)
