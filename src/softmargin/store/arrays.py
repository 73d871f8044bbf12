"""Arrays as the bytes of ``.npy`` files, and dtypes as strings.

Only dtypes of fixed width without pointers are supported: numbers, booleans, strings, dates.  The header is matched by
a pattern, not evaluated, and must agree with the number of bytes that follow it.
"""

from __future__ import annotations

import io
import math
import re
from typing import Any

import numpy as np

from .errors import StoreError

_MAGIC = b"\x93NUMPY\x01\x00"
_HEADER = re.compile(
    rb"\{'descr': '([^']{2,40})', 'fortran_order': (True|False), 'shape': \(((?:[0-9]{1,15},? ?){0,32})\), \} *\n"
)
_DTYPE = re.compile(r"[<>|][biufcSUmM][1-9][0-9]{0,8}(\[[0-9]{0,9}[A-Za-z]{1,7}\])?")
#: The largest length of any axis of an array without entries.
_LONGEST_EMPTY = 2**24


def dtype_word(dtype: np.dtype[Any]) -> str | None:
    """The dtype as a string; None for objects and structured dtypes."""
    return dtype.str if _DTYPE.fullmatch(dtype.str) and dtype.fields is None and dtype.subdtype is None else None


def dtype_of(word: Any) -> np.dtype[Any]:
    """The dtype for a string written by `dtype_word`."""
    if isinstance(word, str) and _DTYPE.fullmatch(word):
        dtype = np.dtype(word)
        if dtype.str == word:
            return dtype
    raise StoreError(f"{str(word)[:60]!r} is not a dtype of numbers, strings or dates")


def parts(array: np.ndarray) -> list[Any]:
    """The header and the entries of an array, as bytes."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, np.lib.format.header_data_from_array_1_0(array))
    flat = array.reshape(-1, order="A" if array.flags.c_contiguous or array.flags.f_contiguous else "C")
    return [header.getvalue(), np.ascontiguousarray(flat).view(np.uint8)]


def parsed(content: bytes) -> np.ndarray:
    """The array with this header and these entries."""
    length = int.from_bytes(content[8:10], "little")
    header = _HEADER.fullmatch(content, 10, 10 + length)
    if content[:8] != _MAGIC or header is None:
        raise StoreError("one of its arrays has a header that softmargin does not write")
    dtype = dtype_of(header[1].decode("ascii", "replace"))
    shape = tuple(int(size) for size in header[3].replace(b" ", b"").split(b",") if size)
    if math.prod(shape) * dtype.itemsize != len(content) - 10 - length:
        raise StoreError(f"the size of one of its arrays does not match its shape {shape}")
    if 0 in shape and max(shape) > _LONGEST_EMPTY:
        raise StoreError(f"one of its arrays has the shape {shape}, though it is empty")
    flat = np.empty(0, dtype) if 0 in shape else np.frombuffer(content, dtype, offset=10 + length).copy()
    return flat.reshape(shape, order="F" if header[2] == b"True" else "C")


def dense(array: np.ndarray) -> tuple[np.ndarray, list[int] | None]:
    """The array with its axes in memory order, and the permutation that restores them; None for C and Fortran order.

    The memory order is kept because the rounding of matrix products depends on it.
    """
    if array.flags.c_contiguous or array.flags.f_contiguous:
        return array, None
    order = sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))
    back = [order.index(axis) for axis in range(array.ndim)]
    return np.ascontiguousarray(array.transpose(order)), (None if back == list(range(array.ndim)) else back)
