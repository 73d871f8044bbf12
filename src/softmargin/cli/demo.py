"""``softmargin demo``."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from .. import demo as demonstration
from .asking import As_json, Seed, out_file
from .showing import plain_table, print_json, progress

_HEADINGS = {"error": "error", "log_loss": "log loss", "brier": "Brier", "ece": "ECE", "seconds": "fit ms"}


def demo(
    out: Annotated[Path, typer.Option(help="File for the picture.")] = Path("softmargin-demo.png"),
    seed: Seed = 0,
    quick: Annotated[bool, typer.Option("--quick", help="Use few splits; takes seconds.")] = False,
    as_json: As_json = False,
    no_picture: Annotated[bool, typer.Option("--no-picture", help="Print the numbers only.")] = False,
) -> None:
    """Run softmargin on real tables.

    Compares models, and draws a decision surface with its uncertainty.
    """
    if not no_picture:
        out_file(out, *_formats())
    start = time.perf_counter()
    tables = demonstration.tables()
    n_splits = demonstration.N_SPLITS_QUICK if quick else demonstration.N_SPLITS
    with progress(len(tables) * n_splits * len(demonstration.MODELS)) as advance:
        results = demonstration.compare(tables, n_splits=n_splits, seed=seed, progress=advance)
    if not as_json:
        _print_results(Console(highlight=False), tables, results, n_splits)
    picture = None if no_picture else str(demonstration.draw(out))
    seconds = time.perf_counter() - start
    if as_json:
        rows = [result._asdict() for result in [*results, *demonstration.mean_over_tables(results)]]
        print_json({"seed": seed, "n_splits": n_splits, "results": rows, "picture": picture, "total_seconds": seconds})
    else:
        print(*([f"Picture: {picture}"] if picture else []), f"Done in {seconds:.0f} s.", sep="\n")


def _formats() -> list[str]:
    """File formats that matplotlib writes, the usual ones first."""
    from matplotlib.backend_bases import FigureCanvasBase

    usual = ("png", "pdf", "svg", "jpg")
    return sorted(FigureCanvasBase.get_supported_filetypes(), key=lambda suffix: (suffix not in usual, suffix))


def _print_results(console: Any, tables: Sequence[Any], results: Sequence[Any], n_splits: int) -> None:
    shown = plain_table("model", list(_HEADINGS.values()))
    for table in tables:
        title = "{} ({} x {})".format(table.name, *table.X.shape)
        add_block(shown, title, [result for result in results if result.table == table.name])
    add_block(shown, "mean over tables", demonstration.mean_over_tables(results))
    console.print(shown)
    console.print(
        f"Means over {n_splits} stratified splits, the same for all models, with 30 % of the rows for testing; the "
        f"best of each block in bold. ECE is computed on the test rows of all splits together. Default settings, one "
        f"thread; calibrated SVC is CalibratedClassifierCV(SVC(), ensemble=False) on scaled columns."
    )
    console.print(demonstration.contradictions(results))


def add_block(shown: Any, title: str, results: Sequence[Any]) -> None:
    """Adds the rows of one table; numbers printed like the best of their column are bold."""
    columns = []
    for name in demonstration.MEASURES:
        values = [getattr(result, name) for result in results]
        texts = [f"{1000 * value:.0f}" if name == "seconds" else f"{value:.4f}" for value in values]
        best = min(texts, key=float)
        columns.append([f"[bold]{text}[/bold]" if text == best else text for text in texts])
    shown.add_row(title, style="cyan")
    for result, *texts in zip(results, *columns, strict=True):
        shown.add_row(f"  {result.model}", *texts)
    shown.add_section()
