"""Conventions of text files, whether they are read at once or in batches.

Entries are separated by commas, semicolons, tabs or bars; the encoding is UTF-8, or UTF-16 with a byte order mark.
Spaces around entries and names are stripped.
"""

from __future__ import annotations

import codecs
import csv
import io
import os
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from ..extras import needed
from .files import arrow, arrow_dataset, names_in, suffix_of

__all__ = ["GAPS", "LOOK", "TextForm", "encoding_of", "refuse_twice", "text_form", "text_format", "tidy"]

#: Entries of text files that mean a missing value.
GAPS = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "?")
#: The number of characters from which the form of a text file is inferred, and possible separators.
LOOK, _SEPARATORS = 65_536, ",;\t|"


def encoding_of(beginning: bytes) -> str:
    """UTF-8, or UTF-16 if the first bytes are its byte order mark.

    >>> encoding_of("a;b".encode("utf-16")), encoding_of(b"a;b")
    ('utf-16', 'utf-8-sig')
    """
    return "utf-16" if beginning[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8-sig"


class TextForm(NamedTuple):
    """The form of a text file: the separator of its entries and the decimal mark of its numbers."""

    separator: str = ","
    decimal: str = "."


def text_form(beginning: str, suffix: str) -> TextForm:
    """The form of a text file, inferred from its first lines; decimal commas are recognised if the separator is ";".

    >>> text_form("a;b\\n1,5;2\\n0,25;3\\n", ".csv")
    TextForm(separator=';', decimal=',')
    """
    lines = beginning.rpartition("\n")[0] or beginning
    if suffix == ".tsv":
        separator = "\t"
    else:
        try:
            separator = csv.Sniffer().sniff(lines, _SEPARATORS).delimiter
        except csv.Error:  # one column, or none
            separator = ","
    if separator != ";":
        return TextForm(separator)
    entries = [entry.strip(' "') for line in lines.splitlines()[1:] for entry in line.split(";")]
    points = any(re.fullmatch(r"[-+]?\d*\.\d+", entry) for entry in entries)
    # 1,234 may have a thousands separator; 1,5 cannot.
    commas = any(re.fullmatch(r"[-+]?\d*,(\d{1,2}|\d{4,})", entry) for entry in entries)
    return TextForm(";", "," if commas and not points else ".")


def refuse_twice(names: Iterable[str], what: str) -> None:
    """Refuses a table in which two columns have the same name, apart from spaces around it; ``what`` is the table."""
    seen: set[str] = set()
    for name in (name.strip() for name in names):
        if name in seen:
            called = f"called {name!r}" if name else "without a name"
            raise ValueError(f"{what} has two columns {called}: rename one of them.")
        seen.add(name)


def text_format(files: Any, texts: Iterable[str] = ()) -> Any:
    """Arrow's format for text files, inferred from the first file; the columns in ``texts`` are read as strings."""
    options = needed("pyarrow.csv", "parquet", "Reading files")
    first = next((name for one in (files if isinstance(files, list) else [files]) for name in names_in(one)), "")
    form, encoding, names = TextForm("\t" if suffix_of(first) == ".tsv" else ","), "utf-8-sig", []
    if os.path.isfile(first):
        with arrow().input_stream(first, compression="detect") as stream:
            beginning = stream.read(LOOK)
        encoding = encoding_of(beginning)
        seen = beginning.decode(encoding, errors="replace")
        form = text_form(seen, suffix_of(first))
        rows = csv.reader(io.StringIO(seen), delimiter=form.separator)
        names = next(filter(None, rows), [])
        is_cut = len(beginning) == LOOK and rows.line_num > seen.count("\n")  # perhaps within the last name
        refuse_twice(names[:-1] if is_cut else names, repr(first))
    wished = set(texts)
    padded = [f"{before}{gap}{after}" for gap in GAPS for before in ("", " ") for after in ("", " ")]
    return arrow_dataset().CsvFileFormat(
        # Arrow handles the byte order mark of UTF-8 itself, and reads this encoding fastest.
        read_options=options.ReadOptions(encoding="utf8" if encoding == "utf-8-sig" else encoding),
        parse_options=options.ParseOptions(delimiter=form.separator),
        convert_options=options.ConvertOptions(
            null_values=padded,
            strings_can_be_null=True,
            decimal_point=form.decimal,
            column_types={name: arrow().string() for name in names if name.strip() in wished},
        ),
    )


def tidy(column: Any) -> Any:
    """An Arrow column with spaces stripped from its strings; those that then mean a missing value become null."""
    if not (arrow().types.is_string(column.type) or arrow().types.is_large_string(column.type)):
        return column
    compute = needed("pyarrow.compute", "parquet", "Reading files")
    trimmed = compute.utf8_trim_whitespace(column)
    is_gap = compute.is_in(trimmed, value_set=arrow().array(GAPS, type=column.type))
    return compute.if_else(is_gap, arrow().scalar(None, type=column.type), trimmed)
