"""The command ``softmargin``.  It needs the ``cli`` extra, and says so when that is missing."""

# No `from __future__ import annotations`: typer reads the annotations of functions whose names are local.

import contextlib
import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

_EXTRA = ("typer", "rich", "matplotlib")
_INSTALL = 'The softmargin command needs a few more packages: pip install "softmargin[cli]"'
_INTERRUPTED = 130
_HEADINGS = {"error": "error", "log_loss": "log loss", "brier": "Brier", "ece": "ECE", "seconds": "fit ms"}


def main() -> None:
    """Runs the command line."""
    try:
        for name in _EXTRA:
            importlib.import_module(name)
    except ImportError:
        print(_INSTALL, file=sys.stderr)
        raise SystemExit(1) from None
    build()()


def build() -> Any:
    """The typer application.

    Examples
    --------
    >>> from typer.testing import CliRunner
    >>> CliRunner().invoke(build(), ["--version"]).exit_code
    0
    """
    import typer

    app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)

    def show_version(wanted: bool) -> None:
        if wanted:
            from . import __version__

            typer.echo(f"softmargin {__version__}")
            raise typer.Exit

    @app.callback(help="Kernel classifiers that know how sure they are.")
    def softmargin(
        version: Annotated[
            bool, typer.Option("--version", callback=show_version, is_eager=True, help="Show the version and stop.")
        ] = False,
    ) -> None:
        pass

    @app.command(help="Compare the models on real tables, and draw a decision surface with its uncertainty.")
    def demo(
        out: Annotated[Path, typer.Option(help="Where to write the picture.")] = Path("softmargin-demo.png"),
        seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seeds the splits.")] = 0,
        quick: Annotated[bool, typer.Option("--quick", help="Few splits, in seconds.")] = False,
        as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON instead of the table.")] = False,
        no_picture: Annotated[bool, typer.Option("--no-picture", help="Only the numbers.")] = False,
    ) -> None:
        if not no_picture and (problem := _cannot_write(out)):
            raise typer.BadParameter(problem, param_hint="--out")
        try:
            _demo(None if no_picture else out, seed, quick, as_json)
        except KeyboardInterrupt:
            typer.echo("Interrupted.", err=True)
            raise typer.Exit(_INTERRUPTED) from None

    return app


def _demo(out: Path | None, seed: int, quick: bool, as_json: bool) -> None:
    """Compares, prints, draws."""
    from rich.console import Console

    from . import demo

    start = time.perf_counter()
    tables = demo.tables()
    n_splits = demo.N_SPLITS_QUICK if quick else demo.N_SPLITS
    with _progress(len(tables) * n_splits * len(demo.MODELS)) as advance:
        results = demo.compare(tables, n_splits=n_splits, seed=seed, progress=advance)
    if not as_json:
        _print_results(Console(highlight=False), tables, results, n_splits)
    picture = None if out is None else str(demo.draw(out))
    seconds = time.perf_counter() - start
    if as_json:
        rows = [result._asdict() for result in [*results, *demo.mean_over_tables(results)]]
        facts = {"seed": seed, "n_splits": n_splits, "results": rows, "picture": picture, "total_seconds": seconds}
        print(json.dumps(facts))
    else:
        print(*([f"Picture: {picture}"] if picture else []), f"Done in {seconds:.0f} s.", sep="\n")


@contextlib.contextmanager
def _progress(total: int) -> Iterator[Callable[[str], None]]:
    """A bar on the error stream, so that what is printed can be piped."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda table: bar.update(task, advance=1, description=table)


def _print_results(console: Any, tables: Sequence[Any], results: Sequence[Any], n_splits: int) -> None:
    from rich import box
    from rich.table import Table

    from . import demo

    shown = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    shown.add_column("model", no_wrap=True)
    for heading in _HEADINGS.values():
        shown.add_column(heading, justify="right", no_wrap=True)
    for table in tables:
        title = "{} ({} x {})".format(table.name, *table.X.shape)
        _add_block(shown, title, [result for result in results if result.table == table.name])
    _add_block(shown, "mean over tables", demo.mean_over_tables(results))
    console.print(shown)
    console.print(
        f"Means over {n_splits} stratified splits, the same for all models, 30 % of the rows tested; the best of a "
        f"block in bold. ECE is over the test rows of all splits together. All settings are defaults, on one thread; "
        f"calibrated SVC is CalibratedClassifierCV(SVC(), ensemble=False) on scaled columns."
    )
    console.print(demo.contradictions(results))


def _add_block(shown: Any, title: str, results: Sequence[Any]) -> None:
    """One table's rows; every number that is printed like the best of its column is bold."""
    from .demo import MEASURES

    columns = []
    for name in MEASURES:
        values = [getattr(result, name) for result in results]
        texts = [f"{1000 * value:.0f}" if name == "seconds" else f"{value:.4f}" for value in values]
        best = min(texts, key=float)
        columns.append([f"[bold]{text}[/bold]" if text == best else text for text in texts])
    shown.add_row(title, style="cyan")
    for result, *texts in zip(results, *columns, strict=True):
        shown.add_row(f"  {result.model}", *texts)
    shown.add_section()


def _cannot_write(path: Path) -> str | None:
    """Why a picture cannot be written to ``path``, if it cannot: better said before the work than after it."""
    from matplotlib.backend_bases import FigureCanvasBase

    formats = FigureCanvasBase.get_supported_filetypes()
    if path.suffix[1:].lower() not in formats:
        return f"{path} must end in .png, .pdf, .svg or another format that matplotlib writes."
    if path.is_dir():
        return f"{path} is a folder."
    if not path.parent.is_dir():
        return f"The folder {path.parent} does not exist."
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        return f"{path} cannot be written: permission denied."
    return None


if __name__ == "__main__":
    main()
