"""Rows of a Gaussian process approximated by waves of random frequencies."""

from __future__ import annotations

import math
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import device

from ..arrays import Array, clipped, like, namespace, to_numpy
from ..frequencies import draw_frequencies
from ..gaussian import Belief
from ..kernels import RBF, Constant, Kernel, Linear, Matern, Product, Sum
from .features import Features, LiftedView, View

#: Scaled coordinates are clipped here; their products with frequencies stay finite in float32.
FAR = 1e15


class _Factor(NamedTuple):
    """A kernel that is neither a sum nor a product, and the position of its first parameter in ``theta``."""

    kernel: Any
    start: int


class Term(NamedTuple):
    """A product of variances and either waves, or the columns themselves, or nothing else.

    ``at`` selects the frequencies of the factors in ``waves``.
    """

    variances: tuple[_Factor, ...]
    waves: tuple[_Factor, ...]
    linear: bool
    at: slice

    @property
    def variance(self) -> float:
        return math.prod(factor.kernel.variance for factor in self.variances)

    def width(self, n_columns: int, n_frequencies: int) -> int:
        return 2 * n_frequencies if self.waves else n_columns if self.linear else 1


class FourierRows(NamedTuple):
    r"""Waves: :math:`\phi = \sqrt{v / D}\, (\cos(e_i^T x / \ell), \sin(e_i^T x / \ell))_{i = 1 \dots D}`.

    These are the features of a kernel of variance :math:`v` and length-scales :math:`\ell`, with frequencies
    :math:`e_i` from `draw_frequencies`.  A sum of kernels has the features of all its terms side by side: a constant
    has one feature, :math:`\sqrt v`, and a linear kernel has the columns times :math:`\sqrt v`.  In a product of
    kernels, frequencies add.  The weights are a priori standard normal whatever the kernel, so the prior covariance of
    ``f`` is :math:`\phi(x)^T \phi(z)`.  Its expectation over frequencies is ``kernel(x, z)``; on the diagonal it is
    exact, so no variance is left unexplained.  Waves use columns centred at ``center``, which changes no covariance but
    keeps angles small enough for single precision.
    """

    kernel: Kernel
    center: Array
    frequencies: tuple[Array, ...]
    least_rows = 1

    @classmethod
    def of(
        cls,
        kernel: Kernel,
        n_columns: int,
        n_frequencies: int,
        how: str,
        rng: np.random.RandomState,
        center: Array | None = None,
    ) -> FourierRows:
        """Rows with ``n_frequencies`` new frequencies for each term of the kernel that has any.

        >>> from softmargin.kernels import RBF, Constant
        >>> rows = FourierRows.of(2.0 * RBF(0.5) + Constant(1.0), 3, 100, "orthogonal", np.random.RandomState(0))
        >>> rows.n_weights, rows.lift(np.zeros((4, 3))).phi.shape
        (201, (4, 201))
        """
        waves = [factor.kernel for term in _terms(kernel, n_columns) for factor in term.waves]
        drawn = tuple(draw_frequencies(wave, n_columns, n_frequencies, how, rng) for wave in waves)
        return cls(kernel, np.zeros(n_columns) if center is None else center, drawn)

    def with_kernel(self, kernel: Kernel) -> FourierRows:
        """The same frequencies for a kernel of the same form with other length-scales and variances."""
        if _form(kernel, self.n_columns) != _form(self.kernel, self.n_columns):
            raise ValueError(f"The frequencies were drawn for {self.kernel}, and do not suit {kernel}.")
        return self._replace(kernel=kernel)

    def seen_by(self, reference: Array) -> FourierRows:
        """The same rows with their arrays in the dtype, library and device of a block of rows."""
        frequencies = tuple(like(E, reference) for E in self.frequencies)
        return self._replace(center=like(self.center, reference), frequencies=frequencies)

    @property
    def n_columns(self) -> int:
        return len(self.center)

    @property
    def n_frequencies(self) -> int:
        """The number of frequencies of each term that has any."""
        return self.frequencies[0].shape[0] if self.frequencies else 0

    @property
    def n_weights(self) -> int:
        return self.parts()[-1][1].stop

    @property
    def width(self) -> int:
        return self.n_weights

    def lift(self, X: Array) -> Features:
        xp, D = namespace(X), self.n_frequencies
        phi = xp.empty((X.shape[0], self.n_weights), dtype=X.dtype, device=device(X))
        for term, columns in self.parts():
            part, root = phi[:, columns], math.sqrt(term.variance)
            if term.waves:
                A, W = self._scaled(term, X)
                angles = A @ W.T
                part[:, :D], part[:, D:] = xp.cos(angles), xp.sin(angles)
                part *= root / math.sqrt(D)
            else:
                part[:, :] = root * X if term.linear else root
        return Features(phi, xp.zeros(X.shape[0], dtype=xp.float64, device=device(X)))

    def pullback(self, X: Array, dphi: Array, phi: Array | None = None) -> np.ndarray:
        r"""The gradient of a sum over rows in ``kernel.theta``, given that in the features, ``phi`` if already known.

        For a wave :math:`(c, s)` with derivatives :math:`(\bar c, \bar s)`, the derivative in the angle is
        :math:`t = c \bar s - s \bar c` (row by frequency).  With :math:`a = (x - \mathrm{center}) / \ell`,

        .. math:: \partial / \partial \log v = \tfrac12 \sum \bar\phi \phi, \quad
                  \partial / \partial \log \ell_c = -\sum_i e_{ic} \sum_n a_{nc} t_{ni}.
        """
        xp, D = namespace(X), self.n_frequencies
        features, dphi = self.lift(X).phi if phi is None else phi, like(dphi, X)
        slopes = np.zeros(len(self.kernel.theta))
        for term, columns in self.parts():
            part, dpart = features[:, columns], dphi[:, columns]
            slopes[[factor.start for factor in term.variances]] += 0.5 * float(xp.sum(part * dpart))
            if term.waves:
                A, _ = self._scaled(term, X)
                T = part[:, :D] * dpart[:, D:] - part[:, D:] * dpart[:, :D]
                AT = to_numpy(T.T @ A).astype(float)
                for factor, E in self._waves(term):
                    per_column = -np.sum(AT * to_numpy(E), axis=0) * _relative(term, factor)
                    n_slopes = len(factor.kernel.theta)
                    slopes[factor.start : factor.start + n_slopes] += per_column if n_slopes > 1 else per_column.sum()
        return slopes

    def leftover_root(self, X: Array) -> None:
        """None: the weights leave nothing unexplained."""

    def view(self, belief: Belief, reference: Array) -> View:
        return LiftedView(self.seen_by(reference), belief.seen_by(reference))

    def parts(self) -> list[tuple[Term, slice]]:
        """The terms of the kernel, and the positions of their weights."""
        terms = _terms(self.kernel, self.n_columns)
        ends = list(accumulate((term.width(self.n_columns, self.n_frequencies) for term in terms), initial=0))
        return list(zip(terms, map(slice, ends[:-1], ends[1:]), strict=True))

    def _waves(self, term: Term) -> list[tuple[_Factor, Array]]:
        """The factors of a term that have frequencies, each with its frequencies."""
        return list(zip(term.waves, self.frequencies[term.at], strict=True))

    def _scaled(self, term: Term, X: Array) -> tuple[Array, Array]:
        """Centred rows in units of the first factor's length-scales, and the frequencies in these units."""
        (first, W), *others = self._waves(term)
        W = like(W, X)
        for factor, E in others:
            W = W + like(E, X) * like(_relative(term, factor), X)
        with np.errstate(over="ignore"):  # values that overflow are clipped; an infinite length-scale gives 0
            units = like(np.asarray(first.kernel.length_scale), X)
            return clipped((X - like(self.center, X)) / units, -FAR, FAR), W


def _relative(term: Term, factor: _Factor) -> np.ndarray:
    """The length-scales of a term's first factor relative to those of another."""
    return np.asarray(term.waves[0].kernel.length_scale) / np.asarray(factor.kernel.length_scale)


def _terms(kernel: Kernel, n_columns: int) -> list[Term]:
    """The kernel as a sum of products that have features; raises an error that names any part that has none."""
    terms, used = [], 0
    for factors in _multiplied_out(kernel, 0):
        waves = tuple(factor for factor in factors if isinstance(factor.kernel, (RBF, Matern)))
        variances = tuple(factor for factor in factors if isinstance(factor.kernel, (Constant, Linear)))
        n_linear = sum(isinstance(factor.kernel, Linear) for factor in factors)
        if len(waves) + len(variances) < len(factors) or n_linear > 1 or (n_linear and waves):
            without = " * ".join(str(factor.kernel) for factor in factors if not isinstance(factor.kernel, Constant))
            raise ValueError(
                f"The kernel {kernel} has no Fourier features, because of {without}. They exist for RBF and Matern, "
                f"their products with constants and each other, Constant, Linear, and sums of all these."
            )
        for factor in waves:
            factor.kernel.refuse_width(n_columns)
        terms.append(Term(variances, waves, n_linear > 0, slice(used, used + len(waves))))
        used += len(waves)
    return terms


def _multiplied_out(kernel: Kernel, start: int) -> list[tuple[_Factor, ...]]:
    """The factors of each term, with products of sums expanded."""
    if not isinstance(kernel, (Sum, Product)):
        return [(_Factor(kernel, start),)]
    first = _multiplied_out(kernel.first, start)
    second = _multiplied_out(kernel.second, start + len(kernel.first.theta))
    return first + second if isinstance(kernel, Sum) else [one + other for one in first for other in second]


def _form(kernel: Kernel, n_columns: int) -> list[tuple[bool, list[tuple[type, Any]]]]:
    """The structure of a kernel's features apart from length-scales and variances: kinds of terms, and smoothness."""
    return [
        (term.linear, [(type(factor.kernel), getattr(factor.kernel, "nu", None)) for factor in term.waves])
        for term in _terms(kernel, n_columns)
    ]
