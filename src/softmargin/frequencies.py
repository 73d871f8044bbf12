r"""Frequencies drawn from the spectrum of a stationary kernel (Bochner): :math:`E \cos(e^T (x - z)) = k(x, z)`.

For unit length-scales they are standard normal for `RBF`; for `Matern` they are :math:`z / \sqrt{\chi^2 / 2\nu}` with
:math:`z` standard normal and :math:`\chi^2` with :math:`2\nu` degrees of freedom, a multivariate t. They are divided by
other length-scales. With every method each frequency has this distribution, so the average is always unbiased; methods
differ in how evenly a few frequencies cover it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import gammaincinv, ndtri
from scipy.stats import qmc

from .kernels import RBF, Kernel, Matern
from .parameters import one_of, positive_integer

#: Sobol points are multiples of 2^-bits; half of that is added, since the quantile of zero is infinite.
_BITS = 30
#: The least mixing root of a rough kernel: higher frequencies than its inverse are noise at any relevant distance.
_LEAST_ROOT = 1e-8


def draw_frequencies(kernel: Kernel, n_columns: int, n: int, how: str, rng: np.random.RandomState) -> np.ndarray:
    """``n`` frequencies (frequency by column) of an `RBF` or `Matern` kernel of unit length-scales.

    ``how`` is ``"plain"`` (independent), ``"orthogonal"`` (in blocks of as many as there are columns, at right angles
    to each other as in Yu et al. 2016, with evenly spread lengths) or ``"quasi"`` (scrambled Sobol points through the
    quantiles).

    >>> from softmargin.kernels import RBF
    >>> E = draw_frequencies(RBF(), 2, 1000, "quasi", np.random.RandomState(0))
    >>> E.shape, round(float(np.mean(np.cos(E @ [1.0, 0.0]))), 3), round(float(np.exp(-0.5)), 3)
    ((1000, 2), 0.607, 0.607)
    """
    if not isinstance(kernel, (RBF, Matern)):
        raise ValueError(f"Frequencies can be drawn for RBF and Matern kernels only, got {kernel}.")
    one_of("how", how, HOWS)
    positive_integer("n", n)
    return HOWS[how](None if isinstance(kernel, RBF) else float(kernel.nu), n_columns, n, rng)


def _plain(nu: float | None, d: int, n: int, rng: np.random.RandomState) -> np.ndarray:
    return rng.standard_normal((n, d)) / _mixing_root(nu, rng.uniform(size=(n, 1)))


def _orthogonal(nu: float | None, d: int, n: int, rng: np.random.RandomState) -> np.ndarray:
    """Orthogonal directions within a block; lengths are independent of them, and evenly spread over all blocks."""
    n_whole, rest = divmod(n, d)
    directions = [_directions(n_whole, d, d, rng).reshape(-1, d), _directions(1, rest, d, rng)[0]]
    # With independent lengths, Matern kernels would gain little, since their lengths vary most.
    u = _sobol(2, n, rng)
    return np.concatenate(directions) * (np.sqrt(_chi_square(d, u[:, :1])) / _mixing_root(nu, u[:, 1:]))


def _directions(n_blocks: int, n: int, d: int, rng: np.random.RandomState) -> np.ndarray:
    """Blocks of ``n <= d`` orthogonal directions, uniformly distributed over rotations."""
    Q, R = np.linalg.qr(rng.standard_normal((n_blocks, d, n)))
    # In the QR factorisation of a normal matrix, Q is uniform only if the diagonal of R is positive.
    return np.swapaxes(Q * np.sign(np.diagonal(R, axis1=1, axis2=2))[:, None, :], 1, 2)


def _quasi(nu: float | None, d: int, n: int, rng: np.random.RandomState) -> np.ndarray:
    """Quantiles of Sobol points; the mixing uses the first coordinate, which is the most even."""
    u = _sobol(d + 1, n, rng)
    return ndtri(u[:, 1:]) / _mixing_root(nu, u[:, :1])


def _sobol(d: int, n: int, rng: np.random.RandomState) -> np.ndarray:
    """The first ``n`` points of a scrambled sequence, within the open cube."""
    within = min(d, qmc.Sobol.MAXDIM)
    sequence = qmc.Sobol(within, scramble=True, bits=_BITS, rng=int(rng.randint(2**31 - 1)))
    points = sequence.random_base2(int(n - 1).bit_length())[:n] + 0.5 ** (_BITS + 1)
    # Coordinates beyond the available direction numbers are plain uniform draws.
    return np.concatenate([points, rng.uniform(size=(n, d - within))], axis=1)


def _mixing_root(nu: float | None, u: np.ndarray) -> np.ndarray | float:
    r""":math:`\sqrt{\chi^2 / 2\nu}` from uniform draws; 1 in the limit that is `RBF`."""
    return 1.0 if nu is None else np.maximum(np.sqrt(_chi_square(2 * nu, u) / (2 * nu)), _LEAST_ROOT)


def _chi_square(degrees: float, u: np.ndarray) -> np.ndarray:
    """Quantiles of the chi-squared distribution."""
    return 2 * gammaincinv(degrees / 2, u)


HOWS: dict[str, Callable[[float | None, int, int, np.random.RandomState], np.ndarray]] = {
    "plain": _plain,
    "orthogonal": _orthogonal,
    "quasi": _quasi,
}
