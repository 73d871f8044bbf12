"""Array operations whose best form depends on the library that owns the array.

Everything else in the package uses the array namespace of its inputs, so it runs on
NumPy arrays and PyTorch tensors alike. This is the only core module that distinguishes the two.
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

#: Panels of a blocked triangular product: enough to skip most of the zeros, few enough for fast BLAS calls.
_PANELS = 8
_SMALLEST_PANEL = 32
#: Rows with less than this many rounding units of the greatest weight are skipped, if at most this share remains.
_NEGLIGIBLE, _FEW = 1e-3, 0.75
#: The most jitter, as a share of the mean diagonal entry; if more is needed, something else is wrong.
_LARGEST_JITTER = 0.1
#: Calls before a function is captured: in the first ones, libraries select algorithms and allocate memory.
_REHEARSALS = 3


class NotPositiveDefiniteError(ValueError):
    """A matrix that must be positive definite is not, even with jitter on its diagonal."""


def namespace(*arrays: Array) -> Any:
    """The array namespace shared by ``arrays``; plain numbers are ignored."""
    if len(arrays) == 1 and type(arrays[0]) is np.ndarray:  # a shortcut, for passes over few rows
        return array_api_compat.numpy
    return array_namespace(*(a for a in arrays if not isinstance(a, (int, float))))


def as_float64(x: Array) -> Array:
    """``x`` in float64, on its device."""
    xp = namespace(x)
    return xp.astype(x, xp.float64, copy=False)


def like(values: Array, reference: Array) -> Array:
    """``values`` with the library, dtype and device of ``reference``."""
    if is_torch_array(reference):
        import torch

        if isinstance(values, np.ndarray):
            values = np.ascontiguousarray(values)  # tensors cannot have negative strides
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
    """The total number of entries in (nested) tuples of arrays."""
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
    """The modified Bessel function of the second kind; always computed on the host."""
    return like(scipy.special.kv(order, to_numpy(x)), x)


def cos_sin(angles: Array, cos: Array, sin: Array) -> None:
    """Writes cosines and sines of ``angles`` to existing arrays: allocating new memory takes longer than computing."""
    if is_numpy_array(angles):
        np.cos(angles, out=cos)
        np.sin(angles, out=sin)
        return
    import torch

    torch.cos(angles, out=cos)
    torch.sin(angles, out=sin)


def product_into(A: Array, B: Array, out: Array) -> Array:
    """``A @ B``, written to an existing array."""
    if is_numpy_array(out):
        return np.matmul(A, B, out=out)
    import torch

    return torch.matmul(A, B, out=out)


# Triangular algebra ------------------------------------------------------------------------------


def cholesky(A: Array) -> Array:
    """The lower Cholesky factor of ``A``; raises `NotPositiveDefiniteError` if there is none."""
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
    if info or not math.isfinite(np.sum(np.diagonal(L))):  # NaN and infinity always reach the diagonal
        raise np.linalg.LinAlgError(f"the leading minor of order {info} is not positive")
    return L


def cholesky_jittered(A: Array, rounding: float) -> tuple[Array, float]:
    """The lower Cholesky factor of ``A + jitter I`` for the first jitter that works, and that jitter.

    The jitter starts at a hundred times ``rounding`` (the rounding unit of the dtype in which the factor will be
    used) times the mean diagonal entry, and increases by factors of ten.
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
    """The inverse of a lower triangular matrix, itself lower triangular."""
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

    On the host the product is computed panel by panel, so that zeros are multiplied only in panels on the
    diagonal. It takes little more than half the operations of a general product, at nearly the same speed per
    operation, and, unlike SciPy's triangular BLAS calls, releases the interpreter lock.
    """
    panels = lower_panels(R)
    if len(panels) == 1:
        return P @ R.T
    out = np.empty((P.shape[0], R.shape[0]), dtype=P.dtype)
    for rows in panels:
        np.matmul(P[:, : rows.stop], R[rows, : rows.stop].T, out=out[:, rows])
    return out


def squares_through_lower(P: Array, R: Array) -> Array:
    """The squared length of each row of ``P @ R.T`` for lower triangular ``R``.

    On the host nothing wider than a panel is formed, since allocating new memory takes longer than computing.
    """
    return sum(row_squares(P[:, : rows.stop] @ R[rows, : rows.stop].T) for rows in lower_panels(R))


def lower_panels(R: Array) -> list[slice]:
    """The rows, or columns, of a lower triangular ``R``, cut into panels on the host; on a device there is one.

    Row ``i`` ends at column ``i``, so a panel of rows ends with its last; a panel of columns starts at its first.
    """
    m = R.shape[0]
    width = max(_SMALLEST_PANEL, -(-m // _PANELS)) if is_numpy_array(R) else m
    return [slice(start, min(start + width, m)) for start in range(0, m, width)]


def clipped(A: Array, low: float, high: float) -> Array:
    """``A`` between two limits; in place on the host."""
    # NumPy's clip with both limits is three times as fast as its maximum.
    return np.clip(A, low, high, out=A) if is_numpy_array(A) else namespace(A).clip(A, low, high)


def clipped_at_zero(A: Array) -> Array:
    """``A`` with values that rounding made negative set to zero; in place on the host."""
    return clipped(A, 0.0, math.inf)


def plus(A: Array, B: Any) -> Array:
    """``A + B``; in place on the host, where no automatic differentiation needs ``A``."""
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
    """``phi.T @ diag(w) @ phi`` in float64 for non-negative ``w``, as the product of a matrix with its transpose.

    On the host, rows of negligible weight are skipped if there are many of them, such as rows beyond the margin of a
    hinge: with many classes, nearly all.
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
    """``function`` as a CUDA graph, for arrays with the shapes, dtypes and devices of the examples.

    Launching a small operation on a GPU takes longer than executing it. So on a CUDA device the function is captured
    once and then replayed; every call overwrites the result of the one before.
    On other devices, and if it cannot be captured (because it reads a value back from the device), it is returned
    unchanged. The graph refers to the memory of all other arrays that the function uses: only their entries may change.
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
