"""The application, assembled from all commands."""

from __future__ import annotations

import functools
import os
import sys
import warnings
from collections.abc import Callable
from typing import Annotated, Any

import typer

from .. import __version__
from ..store import StoreError
from .compare import compare
from .demo import demo
from .evaluate import evaluate
from .fit import fit
from .predict import predict
from .report import report
from .showing import complain

__all__ = ["application"]

_FAILED, _INTERRUPTED = 1, 130
_EXITS = "Exit codes: 0 success, 1 error in the data or the model, 2 error in the command line, 130 Ctrl-C."


def application() -> typer.Typer:
    """The typer application."""
    app = typer.Typer(
        add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None, epilog=_EXITS
    )
    app.callback(help="Bayesian kernel classifiers for tables.")(softmargin)
    for command in (demo, fit, predict, evaluate, report, compare):
        app.command(help=command.__doc__)(_answering(command))
    return app


def softmargin(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=lambda wanted: _show_version(wanted), is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Options of the command itself."""


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"softmargin {__version__}")
        raise typer.Exit


def _answering(command: Callable[..., None]) -> Callable[..., None]:
    """Wraps a command so that errors of data and models are reported in one sentence."""

    @functools.wraps(command)
    def answered(*arguments: Any, **options: Any) -> None:
        try:
            with warnings.catch_warnings():
                warnings.showwarning = lambda message, *_, **__: complain(f"Warning: {message}")
                command(*arguments, **options)
        except BrokenPipeError:  # the reader of a pipe has closed it
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except KeyboardInterrupt:
            complain("Interrupted.")
            raise typer.Exit(_INTERRUPTED) from None
        except (ValueError, OSError, ImportError, StoreError) as error:
            complain(f"Error: {error}")
            raise typer.Exit(_FAILED) from None

    return answered
