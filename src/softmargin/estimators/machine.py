"""The Bayesian kernel machine: random features, and particles over weights and kernels."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, ClassVar, cast

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..arrays import to_numpy
from ..checkpoint import CUT_SHORT
from ..chunks import Table, dense, n_threads, one_blas_thread, rows_in_block
from ..engine import Problem
from ..frequencies import HOWS
from ..inducing import AUTO_POINTS, MERGED_NUMBERS
from ..inference import InferredAscent, Plan
from ..likelihoods import LOSSES, Loss
from ..machine import Arrival, Frame, Journey, Machine, travel, travelling_kernel
from ..monitor import Monitor
from ..parameters import one_of, positive_integer, positive_number
from ..priors import Ridge
from ..rows import Cloud, FourierRows, ParticleRows, beneath
from ..stein import RBFStein, State, SteinKernel
from ..steps import Ascent, Point
from ..tune import LabelledRows
from ..validation import declared_classes, refuse_sources
from .base import Data, Found, Parts
from .in_time import frequencies_in_time
from .kernel import TunedClassifier
from .particle_stream import ParticleStream, refuse_kernel, without_each

LEARNING = ("widths", "all", "weights")
STARTS = ("belief", "prior")
STEIN_KERNELS = ("auto", "rbf")
#: Rows per frequency; the number of frequencies is rounded to a power of two, within limits.
_ROWS_PER_FREQUENCY, _FREQUENCIES = 8, (128, 1024)
#: Approximate steps of all particles together, and limits on their number, a power of two: one particle that has seen
#: more rows is worth more than several that have seen fewer, but the spread of very few is uninformative.
_WORK, _PARTICLES = 32_000, (4, 32)
#: With at most this many rows, tuning has used all of them, and particles have nothing to add.
_ROWS_FOR_PARTICLES = 1024
#: Tolerance and largest number of passes of the ascent that finds the particles' start.
_START_TOLERANCE, _START_PASSES = 3e-3, 20
#: Rows of a minibatch; steps of particles that start near the optimum and use all rows; otherwise visits to each row,
#: which set the number of steps, and its limits; and visits to each row of a batch in a stream.
_BATCH_ROWS, _NEAR_STEPS, _VISITS, _STEPS, _STREAM_VISITS = 256, 100, 20, (200, 8000), 2
#: Largest absolute log length-scale for single precision; leaves room for rows that lie much further away.
_SINGLE = 50.0


class BayesianKernelMachine(TunedClassifier):
    r"""Kernel machine on random Fourier features, with particles over its weights and its kernel.

    Random features make a kernel model linear, at a cost that does not depend on how complex its function is (Rahimi
    and Recht 2008).  Particles, each with weights and length-scales of its own, move towards the posterior by Stein
    variational gradient descent on minibatches (Nguyen et al. 2018), and their latent values are averaged.  Unlike in
    the paper, particles start as draws from a Gaussian posterior, under a kernel tuned on a sample of the rows, so
    nothing is left to tune by hand.

    Parameters
    ----------
    kernel : {"rbf", "matern"}, or a kernel of `softmargin.kernels`
        As in `BayesianSVC`; a sum of RBF, Matern, constant and linear kernels, each times a constant.
    loss : {"auto", "logistic", "hinge", "probit", ...}, or a likelihood
        ``"auto"`` is ``"logistic"``, with more than two classes the cross-entropy of a softmax; objects as in
        `BayesianSVC`.
    multi_class : {"auto", "weston-watkins", "crammer-singer", "ovr", "softmax"}
        As in `BayesianSVC`.
    inference : {"auto", "stein", "cavi", "svi", "adam"}
        ``"stein"`` uses particles.  The others find one Gaussian for the weights of the features, under the tuned
        kernel: see `BayesianSVC`.  ``"auto"`` uses particles for more than 1,024 rows (and in ``partial_fit``): with
        fewer, all rows have already been used in tuning the kernel.
    tune : {"logistic", "bound", "bound-steps", "loo"} or None
        The criterion for the kernel that particles start from: see `BayesianSVC`.
    n_frequencies : int or "auto"
        Number of random frequencies, each of which gives two features.  ``"auto"`` uses about one per eight rows, from
        128 to 1,024; fewer, but at least 128, if a few passes with so many would take longer than ``max_time``.
    frequencies : {"orthogonal", "plain", "quasi"}
        How frequencies are drawn: see `FourierFeatures`.
    n_particles : int or "auto"
        Number of particles.  ``"auto"`` uses 32, and 16, 8 or 4 if there are more than 1,400 steps.
    learn : {"widths", "all", "weights"}
        What particles learn besides their weights: length-scales; variances too, that is, the regularisation; or
        nothing, with the kernel fixed.
    start : {"belief", "prior"}
        Whether particles start as draws from the Gaussian posterior that ``"cavi"`` or ``"svi"`` finds or, as in the
        paper, from the prior.
    stein_kernel : {"auto", "rbf"} or a kernel of `softmargin.stein`
        The kernel that keeps particles apart.  With ``"auto"``, the spread of each coordinate matches the density,
        though not that of every direction (docs/particles.md); with ``"rbf"``, the paper's, it shrinks in many
        dimensions.
    temperature : float or "mean"
        Divides the log-likelihood: 1 gives the posterior, and ``"mean"``, the number of rows, the paper's objective.
    n_steps : int or "auto"
        Number of steps of the particles.  ``"auto"`` visits each row twenty times, in 200 to 8,000 steps; or takes 100
        steps if each uses all rows, with ``start="belief"`` and ``stein_kernel="auto"``.
    step_size : float
        The size of the first step, in posterior standard deviations; it decays to zero.
    batch_size : int or "auto"
        Number of rows in a minibatch; ``"auto"`` is 256, or all rows if there are no more.
    learning_rate : "adaptive" or (delay, power)
        For ``"svi"`` and ``"adam"``: see `BayesianSVC`.
    forgetting, link, class_weight, tol, max_iter, max_time, n_jobs, verbose, random_state
        As in `BayesianSVC`.  Weights are equivalent to repeated rows exactly in tables of up to 4 million numbers.

    Attributes
    ----------
    classes_ : array of the class labels
    kernel_ : the kernel; with particles, the one at the mean of their log-parameters
    particles_ : their ``weights`` (particle, feature, class) and ``theta``, the log-parameters of their kernels; None
        if there are none
    n_particles_, n_frequencies_ : int, the numbers chosen
    bound_ : float, the objective of the Gaussian posterior from which particles start
    history_ : list with a dict for each pass, and then for some of the steps, with estimates of the mean log-density
    stop_reason_ : {"steps", "time", "interrupt"}, or as in `BayesianSVC`
    link_, loo_log_loss_, tune_history_, n_iter_, fitted_prior_, data_prior_ : as in `BayesianSVC`; with particles, rows
        are left out by one Newton step under the kernel at the mean of their log-parameters

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from softmargin import BayesianKernelMachine
    >>> X, y = make_moons(200, noise=0.2, random_state=0)
    >>> model = BayesianKernelMachine(inference="stein", random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    >>> model.n_particles_, model.n_frequencies_
    (32, 128)
    """

    _LOSSES = {"auto": "logistic"} | {word: word for word in LOSSES}
    _INFERENCES = ("auto", "stein", "cavi", "svi", "adam")
    _SOURCES = False
    #: Settings of inference methods that are not offered here.
    n_draws: ClassVar[int] = 1
    n_chains: ClassVar[int] = 1
    warm_up: ClassVar[int] = 0
    thin: ClassVar[int] = 1

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        loss: Loss = "auto",
        multi_class: str = "auto",
        inference: str = "auto",
        tune: str | None = "logistic",
        n_frequencies: int | str = "auto",
        frequencies: str = "orthogonal",
        n_particles: int | str = "auto",
        learn: str = "widths",
        start: str = "belief",
        stein_kernel: Any = "auto",
        temperature: float | str = 1.0,
        n_steps: int | str = "auto",
        step_size: float = 0.05,
        batch_size: int | str = "auto",
        learning_rate: Any = "adaptive",
        forgetting: float = 0.0,
        link: str = "loo",
        class_weight: Any = None,
        tol: float = 1e-3,
        max_iter: int = 200,
        max_time: float | None = None,
        n_jobs: int | None = None,
        verbose: bool | int = False,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.loss = loss
        self.multi_class = multi_class
        self.inference = inference
        self.tune = tune
        self.n_frequencies = n_frequencies
        self.frequencies = frequencies
        self.n_particles = n_particles
        self.learn = learn
        self.start = start
        self.stein_kernel = stein_kernel
        self.temperature = temperature
        self.n_steps = n_steps
        self.step_size = step_size
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.forgetting = forgetting
        self.link = link
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    def _has_particles(self, data: Data | None = None) -> bool:
        """Whether there will be particles, for this data if it is known; further rows may follow a batch."""
        few = data is not None and not data.more and len(data.y) <= _ROWS_FOR_PARTICLES
        return self.inference == "stein" or (self.inference == "auto" and not few)

    def _is_only_start(self, data: Data) -> bool:
        return self._has_particles(data)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        positive_integer("n_frequencies", self.n_frequencies, words=("auto",))
        one_of("frequencies", self.frequencies, HOWS)
        positive_integer("n_particles", self.n_particles, words=("auto",))
        one_of("learn", self.learn, LEARNING)
        one_of("start", self.start, STARTS)
        if not isinstance(self.stein_kernel, SteinKernel):
            one_of("stein_kernel", self.stein_kernel, STEIN_KERNELS)
        if self.temperature != "mean":
            positive_number("temperature", self.temperature)
        positive_integer("n_steps", self.n_steps, words=("auto",))
        positive_number("step_size", self.step_size)

    def _plan(self, data: Data | None = None) -> Plan:
        plan = super()._plan(data)
        if not self._has_particles(data):
            return plan
        few = min(plan.max_passes, _START_PASSES)
        return plan._replace(how="auto", batch_rows="auto", tol=max(plan.tol, _START_TOLERANCE), max_passes=few)

    def _check_data(
        self, X: Any, y: Any, sample_weight: Any, classes: np.ndarray | None = None, first: bool = True
    ) -> Data:
        """Merges repeated rows of tables that are not too large: weights equal copies, and row order has no effect."""
        data = super()._check_data(X, y, sample_weight, classes, first)
        return data.merged() if 0 < data.X.shape[0] * data.X.shape[1] <= MERGED_NUMBERS else data

    def _parts(self, data: Data, rng: np.random.RandomState, monitor: Monitor, jobs: int = 1) -> Parts:
        refuse_kernel(self, data.X.shape[1], self._has_particles(data))
        chosen = self._chosen(data, rng, monitor, jobs, AUTO_POINTS)
        n_frequencies = self.n_frequencies
        if isinstance(n_frequencies, str):
            n_frequencies = int(np.clip(2 ** round(math.log2(data.X.shape[0] / _ROWS_PER_FREQUENCY)), *_FREQUENCIES))
            sizes = _FREQUENCIES[0], data.X.shape[0], data.n_classes
            n_frequencies = frequencies_in_time(n_frequencies, *sizes, monitor, jobs)
        n_columns, center = data.X.shape[1], chosen.columns.center
        rows = FourierRows.of(chosen.kernel, n_columns, n_frequencies, self.frequencies, rng, center)
        return Parts(rows, Ridge.isotropic(rows.n_weights), self._loss_for(), chosen.judged)

    # Particles ---------------------------------------------------------------------------------------

    def _find(self, X: Any, y: Any, sample_weight: Any) -> Found:
        found = super()._find(X, y, sample_weight)
        return self._with_particles(found) if self._has_particles(found.data) else found

    def _with_particles(self, found: Found, first: bool = True) -> Found:
        """Moves particles from the belief of a fit, over the same rows, which need not be the first of a stream."""
        rows, reason = found.data.labelled, found.reason
        rng = np.random.RandomState(check_random_state(self.random_state).randint(2**31))
        n_particles, journey = self._planned(len(rows.y))
        machine = self._machine(found)
        state = journey.begun(machine.frame.draws(n_particles, rng))
        if reason not in CUT_SHORT:
            state, reason = self._travelled(machine, rows, state, journey, rng, found.monitor)
        settled = self._settled(found, ParticleStream.begun(machine, state, found), reason)
        return self._linked(found, settled, machine.temperature) if first and self.link == "loo" else settled

    def _linked(self, start: Found, settled: Found, temperature: float) -> Found:
        """Fits the link for the particles: a few of them spread differently from the belief they started from."""
        with one_blas_thread:
            record = without_each(start, settled, temperature)
        link, log_loss = self._fit_link(record, start.data.n_classes, start.parts.loss)
        stream: Any = settled.stream
        return settled._replace(link=link, loo_log_loss=log_loss, stream=stream._replace(record=record.thinned()))

    @property
    def _batch_rows(self) -> int:
        return _BATCH_ROWS if isinstance(self.batch_size, str) else self.batch_size

    def _planned(self, n_rows: int) -> tuple[int, Journey]:
        """The number of particles, and the length of their journey."""
        batch_rows, given = self._batch_rows, self.n_particles
        whole = n_rows <= batch_rows
        near = whole and self.start == "belief" and given != 1
        near = near and isinstance(self.stein_kernel, str) and self.stein_kernel == "auto"
        n_steps = self.n_steps
        if isinstance(n_steps, str):
            n_steps = _NEAR_STEPS if near else int(np.clip(_VISITS * n_rows / batch_rows, *_STEPS))
        affordable = 2 ** round(math.log2(_WORK / n_steps))
        n_particles = int(np.clip(affordable, *_PARTICLES)) if isinstance(given, str) else given
        return n_particles, Journey(n_steps, batch_rows, self.step_size, whole, near=near)

    def _machine(self, found: Found) -> Machine:
        """The density on which particles move: that of all rows so far, for which those of a batch stand."""
        rows, total = beneath(found.parts.rows), float(found.class_totals[0].sum())
        kernel = rows.kernel
        is_width = kernel.has_role("length_scale")
        moves = {"widths": is_width, "all": np.ones(len(is_width)), "weights": np.zeros(len(is_width))}[self.learn]
        theta, n_classes = kernel.theta, found.data.n_classes
        single = np.all(np.abs(theta[is_width]) < _SINGLE)
        reference = np.empty(0, dtype=np.float32 if single else np.float64)
        if self.start == "belief":
            frame = Frame.about(found.inferred.ascent.point.belief, theta, moves, reference, self._heat(total))
        else:
            frame = Frame.of_prior(rows.n_weights, 1 if n_classes == 2 else n_classes, theta, moves, reference)
        likelihood = self._likelihood(found.parts.loss, n_classes)
        return Machine(rows, likelihood, frame, is_width, total, self._heat(total), n_threads(self.n_jobs))

    def _heat(self, total: float) -> float:
        """The temperature, for rows of this total weight."""
        return total if isinstance(self.temperature, str) else self.temperature

    def _travelled(
        self,
        machine: Machine,
        rows: LabelledRows,
        state: State,
        journey: Journey,
        rng: np.random.RandomState,
        monitor: Monitor,
    ) -> Arrival:
        kernel = self.stein_kernel
        if isinstance(kernel, str):
            kernel = travelling_kernel(*state.particles.shape) if kernel == "auto" else RBFStein()
        with one_blas_thread:
            return travel(machine, rows, state, journey, kernel, rng, monitor)

    def _settled(self, found: Found, stream: ParticleStream, reason: str) -> Found:
        """The results, with particles as the belief."""
        machine = stream.machine
        cloud = Cloud(*map(to_numpy, machine.frame.cloud(stream.state.particles)))
        rows: Any = ParticleRows(machine.rows, np.empty(0, dtype=found.problem.table.reference.dtype))
        problem = replace(found.problem, rows=rows, prior=Ridge.isotropic(machine.rows.n_weights), _kept={})
        point: Any = found.inferred.ascent.point._replace(belief=cloud)
        return found._replace(problem=problem, inferred=InferredAscent(Ascent(point, reason)), stream=cast(Any, stream))

    def _keep(self, found: Found) -> None:
        super()._keep(found)
        rows = self.rows_.rows if isinstance(self.rows_, ParticleRows) else beneath(self.rows_)
        assert isinstance(rows, FourierRows)
        self.particles_ = self.belief_ if isinstance(self.belief_, Cloud) else None
        self.tune_history_, self.n_frequencies_ = found.parts.judged, rows.n_frequencies
        self.n_particles_ = 0 if self.particles_ is None else self.particles_.n_particles
        self.kernel_ = rows.kernel
        if self.particles_ is not None:
            self.kernel_ = rows.kernel.with_theta(self.particles_.theta.mean(axis=0).astype(np.float64))

    # Streams -----------------------------------------------------------------------------------------

    def _find_more(self, X: Any, y: Any, classes: Any, sample_weight: Any) -> Found | None:
        stream: Any = getattr(self, "_stream", None)
        if not isinstance(stream, ParticleStream):
            found = super()._find_more(X, y, classes, sample_weight)
            return self._with_particles(found, stream is None) if found is not None and self._has_particles() else found
        known = declared_classes(classes, self.classes_)
        data = self._check_data(X, y, sample_weight, known, first=False)
        return self._moved_on(data._replace(more=True), stream) if len(data.y) else None

    def _moved_on(self, data: Data, stream: ParticleStream) -> Found:
        """Moves the particles by one more batch, which stands for all rows so far; its predictions refit the link.

        Steps become shorter as the number of rows grows, since each row then changes less.
        """
        keep, monitor = 1 - self.forgetting, Monitor(type(self).__name__, self.verbose, self.max_time, self.max_iter)
        totals = data.class_totals + keep * self._class_totals
        total = float(totals[0].sum())
        stream = stream.after(data, *self._moments(data.X), keep, total, self._heat(total))
        batch_rows = min(len(data.y), self._batch_rows)
        rate = self.step_size * math.sqrt(min(1.0, stream.first_rows / total))
        journey = Journey(-(-_STREAM_VISITS * len(data.y) // batch_rows), batch_rows, rate, endless=True)
        rng = np.random.RandomState(check_random_state(self.random_state).randint(2**31) ^ stream.state.count)
        rows = data.labelled
        state, reason = self._travelled(stream.machine, rows, stream.state, journey, rng, monitor)
        link, log_loss = self._fit_link(stream.record, data.n_classes, near=self.link_)
        table = Table.of(data.X, data.y, data.weight, self.rows_.width)
        problem: Any = Problem(table, self.rows_, stream.machine.likelihood, self._weight_prior)
        point: Any = Point(None, None, None, self.bound_)  # type: ignore[arg-type]
        parts = Parts(stream.machine.rows, self._weight_prior, self.loss_, self.tune_history_)
        found = Found(
            data, parts, problem, InferredAscent(Ascent(point, reason)), None, monitor, link, log_loss, totals
        )
        return self._settled(found, stream._replace(state=state), reason)

    def sample_latent(self, X: Any, n_samples: int = 1, random_state: Any = None) -> np.ndarray:
        """Joint draws of the latent values at the rows of ``X``, the last axis; before it classes, if more than two.

        Particles are functions, and each draw is one of them.
        """
        check_is_fitted(self)
        if self.particles_ is None:
            return super().sample_latent(X, n_samples, random_state)
        refuse_sources(X, "sample_latent", "Draws would not fit in memory: draw for one batch at a time")
        positive_integer("n_samples", n_samples)
        X = dense(self._numbers(X)).astype(np.float64, copy=False)
        which = check_random_state(random_state).randint(self.n_particles_, size=n_samples)
        view: Any = self.rows_.view(self.particles_, X)
        size = rows_in_block(self.rows_.width)
        blocks = [view.values(X[start : start + size]) for start in range(0, len(X), size)]
        values = np.concatenate(blocks, axis=1)[which]
        return np.moveaxis(values[..., 0] if values.shape[2] == 1 else values, 0, -1)
