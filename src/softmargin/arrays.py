"""Array operations whose best form depends on the library that owns the array.

Everything else in the package is written against the array namespace of its inputs, so it runs on
NumPy arrays and PyTorch tensors alike.  This is the only core file that knows either by name.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import array_api_compat.numpy
import numpy as np
import scipy.linalg
import scipy.special
from array_api_compat import array_namespace, device, is_numpy_array, is_torch_array

Array = Any

#: Panels of a blocked triangular product: enough to skip most of the zeros, few enough for fast products.
_PANELS = 8
_SMALLEST_PANEL = 32
#: Weights of this many rounding units of the largest are as good as none; so many rows have to be left for it to pay.
_NEGLIGIBLE, _FEW = 1e-3, 0.75
#: More jitter than this share of the diagonal means that something else is wrong.
_LARGEST_JITTER = 0.1
#: Calls before a recording: libraries choose their ways, and allocate, on the first.
_REHEARSALS = 3


class NotPositiveDefiniteError(ValueError):
    """A matrix that must be positive definite is not, even with jitter on its diagonal."""


def namespace(*arrays: Array) -> Any:
    """The array namespace shared by ``arrays``; plain numbers are ignored."""
    if len(arrays) == 1 and type(arrays[0]) is np.ndarray:  # asked for many times in a pass over a few rows
        return array_api_compat.numpy
    return array_namespace(*(a for a in arrays if not isinstance(a, (int, float))))


def as_float64(x: Array) -> Array:
    """``x`` in float64, where it already lives."""
    xp = namespace(x)
    return xp.astype(x, xp.float64, copy=False)


def like(values: Array, reference: Array) -> Array:
    """``values`` with the library, dtype and device of ``reference``."""
    if is_torch_array(reference):
        import torch

        if isinstance(values, np.ndarray):
            values = np.ascontiguousarray(values)  # tensors cannot be read backwards
        return torch.as_tensor(values).to(dtype=reference.dtype, device=reference.device)
    return np.asarray(values, dtype=reference.dtype)


def to_numpy(x: Array) -> np.ndarray:
    """``x`` as a NumPy array on the host."""
    return x.detach().cpu().numpy() if is_torch_array(x) else np.asarray(x)


def precision_of(x: Array) -> float:
    """The rounding unit of the dtype of ``x``."""
    return float(namespace(x).finfo(x.dtype).eps)


def combined(first: Any, rate: float, second: Any) -> Any:
    """``first + rate * second``, entry by entry where they are (nested) tuples of arrays.

    >>> combined((1.0, (2.0, 3.0)), -1.0, (1.0, (1.0, 1.0)))
    (0.0, (1.0, 2.0))
    """
    if isinstance(first, tuple):
        parts = (combined(a, rate, b) for a, b in zip(first, second, strict=True))
        return type(first)(*parts) if hasattr(first, "_fields") else tuple(parts)
    return first + second if rate == 1 else first + rate * second


def size_of(values: Any) -> int:
    """How many numbers are in (nested) tuples of arrays."""
    return sum(map(size_of, values)) if isinstance(values, tuple) else math.prod(getattr(values, "shape", ()))


# Special functions -------------------------------------------------------------------------------


def _special(name: str, x: Array) -> Array:
    if is_torch_array(x):
        import torch

        return getattr(torch.special, name)(x)
    return getattr(scipy.special, name)(x)


def ndtr(x: Array) -> Array:
    """The standard normal distribution function."""
    return _special("ndtr", x)


def log_ndtr(x: Array) -> Array:
    """Its logarithm, accurate far into the left tail."""
    return _special("log_ndtr", x)


def erfcx(x: Array) -> Array:
    """The scaled complementary error function ``exp(x^2) erfc(x)``."""
    return _special("erfcx", x)


def normal_density(x: Array) -> Array:
    """The standard normal density."""
    return namespace(x).exp(-0.5 * x * x) / math.sqrt(2 * math.pi)


def expit(x: Array) -> Array:
    """The logistic function ``1 / (1 + exp(-x))``."""
    return _special("expit", x)


def log_expit(x: Array) -> Array:
    """Its logarithm, without overflow."""
    xp = namespace(x)
    return xp.minimum(x, xp.zeros_like(x)) - xp.log1p(xp.exp(-xp.abs(x)))


def bessel_k(order: float, x: Array) -> Array:
    """The modified Bessel function of the second kind; on the host, whatever the library."""
    return like(scipy.special.kv(order, to_numpy(x)), x)


def cos_sin(angles: Array, cos: Array, sin: Array) -> None:
    """Cosines and sines of ``angles`` into arrays that are there: fresh memory is slower to touch than to compute."""
    if is_numpy_array(angles):
        np.cos(angles, out=cos)
        np.sin(angles, out=sin)
        return
    import torch

    torch.cos(angles, out=cos)
    torch.sin(angles, out=sin)


def product_into(A: Array, B: Array, out: Array) -> Array:
    """``A @ B``, into an array that is there."""
    if is_numpy_array(out):
        return np.matmul(A, B, out=out)
    import torch

    return torch.matmul(A, B, out=out)


# Triangular algebra ------------------------------------------------------------------------------


def cholesky(A: Array) -> Array:
    """The lower Cholesky factor of ``A``, or `NotPositiveDefiniteError`."""
    try:
        if is_numpy_array(A):
            return _factor(A)
        L = namespace(A).linalg.cholesky(A)
    except (np.linalg.LinAlgError, RuntimeError, ValueError) as error:
        raise NotPositiveDefiniteError(str(error)) from error
    return L


def _factor(A: np.ndarray) -> np.ndarray:
    """What `scipy.linalg.cholesky` does, without its checks, which take longer than a small matrix."""
    (potrf,) = scipy.linalg.get_lapack_funcs(("potrf",), (A,))
    L, info = potrf(A, lower=1, clean=1)
    if info or not math.isfinite(np.sum(np.diagonal(L))):  # whatever is no number reaches the diagonal
        raise np.linalg.LinAlgError(f"the leading minor of order {info} is not positive")
    return L


def cholesky_jittered(A: Array, rounding: float) -> tuple[Array, float]:
    """The lower Cholesky factor of ``A + jitter I`` for the smallest jitter on a ladder that works.

    The ladder starts at a hundred times ``rounding`` (the unit of the dtype in which the factor will be
    used) of the mean diagonal entry and climbs by tens.  Returns the factor and the jitter.
    """
    xp = namespace(A)
    scale = float(xp.mean(xp.linalg.diagonal(A)))
    if not math.isfinite(scale) or scale <= 0:
        raise NotPositiveDefiniteError("the diagonal is not positive and finite")
    identity = xp.eye(A.shape[0], dtype=A.dtype, device=device(A))
    jitter = 100 * rounding * scale
    while jitter <= _LARGEST_JITTER * scale:
        try:
            return cholesky(A + jitter * identity), jitter
        except NotPositiveDefiniteError:
            jitter *= 10
    raise NotPositiveDefiniteError(f"not positive definite even with {jitter / 10:g} on the diagonal")


def inverse_lower(L: Array) -> Array:
    """The inverse of a lower triangular matrix, lower triangular too."""
    if is_numpy_array(L):
        (trtri,) = scipy.linalg.get_lapack_funcs(("trtri",), (L,))
        return trtri(L, lower=1)[0]
    import torch

    return torch.linalg.solve_triangular(L, torch.eye(L.shape[0], dtype=L.dtype, device=L.device), upper=False)


def solve_lower(L: Array, x: Array, transposed: bool = False) -> Array:
    """``L^-1 x`` for a lower triangular matrix and a vector, or ``L^-T x``."""
    if is_numpy_array(L):
        return scipy.linalg.solve_triangular(L, x, lower=True, trans=int(transposed), check_finite=False)
    import torch

    return torch.linalg.solve_triangular(L.T if transposed else L, x[:, None], upper=transposed)[:, 0]


def times_lower_transposed(P: Array, R: Array) -> Array:
    """``P @ R.T`` for lower triangular ``R``.

    On the host the product runs panel by panel, so that only the panel on the diagonal multiplies
    zeros: nearly the speed of a general product at little more than half of its operations, and,
    unlike the triangular BLAS calls of SciPy, free of the interpreter lock.
    """
    panels = _panels(P, R)
    if len(panels) == 1:
        return P @ R.T
    out = np.empty((P.shape[0], R.shape[0]), dtype=P.dtype)
    for rows in panels:
        np.matmul(P[:, : rows.stop], R[rows, : rows.stop].T, out=out[:, rows])
    return out


def squares_through_lower(P: Array, R: Array) -> Array:
    """The squared length of each row of ``P @ R.T`` for lower triangular ``R``.

    On the host nothing wider than a panel is formed: fresh memory is slower to touch than to compute.
    """
    return sum(row_squares(P[:, : rows.stop] @ R[rows, : rows.stop].T) for rows in _panels(P, R))


def _panels(P: Array, R: Array) -> list[slice]:
    """The rows of ``R``, cut into panels on the host; row ``i`` ends at column ``i``, so a panel at its last row."""
    m = R.shape[0]
    width = max(_SMALLEST_PANEL, -(-m // _PANELS)) if is_numpy_array(P) else m
    return [slice(start, min(start + width, m)) for start in range(0, m, width)]


def clipped(A: Array, low: float, high: float) -> Array:
    """``A`` between two limits; in place on the host."""
    # With both limits given NumPy's clip is three times as fast as its maximum.
    return np.clip(A, low, high, out=A) if is_numpy_array(A) else namespace(A).clip(A, low, high)


def clipped_at_zero(A: Array) -> Array:
    """``A`` with what rounding took below zero put back; in place on the host."""
    return clipped(A, 0.0, math.inf)


def plus(A: Array, B: Any) -> Array:
    """``A + B``; in place on the host, where nobody asks for the way back."""
    return np.add(A, B, out=A) if is_numpy_array(A) else A + B


def times(A: Array, B: Any) -> Array:
    """``A * B``, entry by entry; in place on the host."""
    return np.multiply(A, B, out=A) if is_numpy_array(A) else A * B


def row_squares(A: Array) -> Array:
    """The squared length of each row."""
    if is_numpy_array(A):
        return np.einsum("ij,ij->i", A, A)
    return namespace(A).sum(A * A, axis=1)


def weighted_gram(phi: Array, w: Array) -> Array:
    """``phi.T @ diag(w) @ phi`` in float64 for non-negative ``w`` (a symmetric product of one matrix).

    On the host, rows whose weight is below rounding are left out if they are many: those beyond the margin of a hinge,
    say, which of many classes are nearly all.
    """
    xp = namespace(phi)
    if is_numpy_array(phi) and len(w):
        heavy = np.flatnonzero(w > _NEGLIGIBLE * precision_of(phi) * np.max(w))
        if len(heavy) <= _FEW * len(w):
            phi, w = phi[heavy], w[heavy]
    root = xp.astype(xp.sqrt(w), phi.dtype, copy=False)[:, None] * phi
    return as_float64(root.T @ root)


# Devices -----------------------------------------------------------------------------------------


def replayed(function: Callable[..., Array], *examples: Array) -> Callable[..., Array]:
    """``function``, told to a device as a whole, for arrays with the shapes, dtypes and places of the examples.

    A graphics processor is told of one small operation after another, and telling takes longer than doing.  So on a
    CUDA device the function is recorded and played again, and what it returns is overwritten by the next call.
    Everywhere else, and where it cannot be recorded (something in it asks the device for a number), it is returned as
    it is.  A recording holds on to whatever else the function uses: that may change in its entries alone.
    """
    if not all(is_torch_array(x) and x.is_cuda for x in examples):
        return function
    import torch

    inputs = [x.clone() for x in examples]
    stream = torch.cuda.Stream(examples[0].device)
    stream.wait_stream(torch.cuda.current_stream(examples[0].device))
    with torch.cuda.stream(stream):
        for _ in range(_REHEARSALS):
            function(*inputs)
    torch.cuda.current_stream(examples[0].device).wait_stream(stream)
    graph: Any = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            output = function(*inputs)
    except RuntimeError as error:
        warnings.warn(f"Steps cannot be captured as a graph and will be slower: {error}", RuntimeWarning, stacklevel=2)
        return function

    def play(*arrays: Array) -> Array:
        for into, x in zip(inputs, arrays, strict=True):
            into.copy_(x)
        graph.replay()
        return output

    return play
