"""Claim: at least half of the time of a particle step is spent in its matrix products.

One step: weights and kernels of all particles from their coordinates, waves, latent values, slopes of the loss, slopes
in weights and length-scales, the gradient back to coordinates, the Stein direction of the default kernel, and Adam.
Sizes are those of Nguyen et al. (2018): 100 particles, 512 frequencies, 200 rows; 123 columns as in a9a and 22 as in
ijcnn1, both with two classes, and 126 with three classes as in connect-4.  Rows are noise: the cost does not depend on
them.  float32; every column has its own length-scale; coordinates are about a Gaussian posterior, as by default.

The reference is the time of the products alone: the same shapes, in the same order and with as many particles at once,
in the same library, on the same device, with as many threads, into preallocated arrays.  Cosines and sines,
exponentials, copies and the rest count for nothing, nor does the outer product of two vectors, which is what slopes in
waves are for two classes.  Steps and products take turns, and the value is the median of the ratios.  Below it is where
a step spends its time: each stage on its own, one thread, with warm caches; what remains is calls and memory.

With one thread, seconds are processor seconds, which a busy machine affects less; otherwise they are elapsed seconds.

Target: on each device a ratio of at least .5 in every case.

    python benchmarks/stein_speed.py [--device cpu|cuda|torch-cpu] [--particles 100] [--quick]

On the CPU steps use NumPy, with one thread and with two; with --device cuda, or torch-cpu to try, PyTorch.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from common import arguments, print_table, report
from softmargin.arrays import like, lower_panels, namespace, replayed
from softmargin.chunks import one_blas_thread, sweep
from softmargin.kernels import RBF, Constant
from softmargin.likelihoods import LOSSES, Softmax, score
from softmargin.machine import Frame, Machine, travelling_kernel
from softmargin.rows import FourierRows, ParticleRows
from softmargin.stein import Adam, State, init

TARGET = 0.5
N_ROWS, N_ALL = 200, 30_000


class Case(NamedTuple):
    """The columns and the classes of a table."""

    name: str
    n_columns: int
    n_classes: int


CASES = [Case("a9a", 123, 2), Case("ijcnn1", 22, 2), Case("connect-4", 126, 3)]


class Batch(NamedTuple):
    """Rows, labels and weights of one step."""

    X: Any
    y: Any
    weight: Any


class Setup(NamedTuple):
    """What a step is made of."""

    machine: Machine
    state: State
    batch: Batch
    directions: Callable[..., Any]

    def step(self) -> Any:
        """All of it; particles do not move on, so that all repeats are the same."""
        with one_blas_thread:  # as the estimator has it
            return Adam().advance(self.state, self.directions(self.state.particles, *self.batch)).particles


def setup(case: Case, n_particles: int, n_frequencies: int, n_jobs: int, reference: Any) -> Setup:
    """Particles that have seen a step, about a posterior that is narrower than the prior."""
    rng = np.random.RandomState(0)
    d, C = case.n_columns, 1 if case.n_classes == 2 else case.n_classes
    kernel = 4.0 * RBF(tuple(np.full(d, d**0.5))) + Constant(1.0)
    rows = FourierRows.of(kernel, d, n_frequencies, "orthogonal", rng)
    m = rows.n_weights
    roots = np.tril(rng.standard_normal((C, m, m)) / m + 0.3 * np.eye(m))
    is_width = kernel.has_role("length_scale")
    parts = (rng.standard_normal((m, C)), roots, kernel.theta, np.eye(len(is_width))[is_width])
    frame = Frame(*(like(part, reference) for part in parts))
    likelihood: Any = LOSSES["logistic"] if C == 1 else Softmax()
    machine = Machine(rows, likelihood, frame, is_width, N_ALL, n_jobs=n_jobs)
    X = rng.standard_normal((N_ROWS, d))
    y = np.where(X[:, 0] > 0, 1.0, -1.0) if C == 1 else np.arange(N_ROWS) % C
    batch = Batch(*(like(part, reference) for part in (X, y, np.ones(N_ROWS))))
    first = init(frame.draws(n_particles, rng), Adam())
    moves = partial(machine.direction, travelling_kernel(*first.particles.shape))
    state = Adam().advance(first, moves(first.particles, *batch))
    return Setup(machine, state, batch, replayed(moves, state.particles, *batch))


class Product(NamedTuple):
    """Two factors and where their product goes."""

    first: Any
    second: Any
    result: Any

    @classmethod
    def of(cls, first: Any, second: Any) -> Product:
        return cls(first, second, first @ second)

    def compute(self) -> None:
        first, second, result = self
        if isinstance(result, np.ndarray):
            np.matmul(first, second, out=result)
        else:
            import torch

            torch.matmul(first, second, out=result)

    def parts(self, number: int) -> list[Product]:
        """The same by blocks of rows, for as many threads."""
        size = -(-self.first.shape[-2] // number)
        cuts = [slice(start, start + size) for start in range(0, self.first.shape[-2], size)]
        return [Product(self.first[..., cut, :], self.second, self.result[..., cut, :]) for cut in cuts]


class Products:
    """The products of a step: those of particles, as many at once as a step takes, and those of all coordinates."""

    def __init__(self, made: Setup) -> None:
        machine, particles = made.machine, made.state.particles
        self.n_jobs = machine.n_jobs
        xp, cloud = namespace(particles), machine.frame.cloud(particles)
        (b, d), (m, C), D = made.batch.X.shape, machine.frame.mean.shape, machine.rows.n_frequencies
        lifts = ParticleRows(machine.rows, particles)
        cuts = lifts.each(cloud, b)
        n = min(cuts[0].stop, cloud.n_particles)
        self.n_groups = len(cuts)
        E = lifts.rows.frequencies[0]

        def numbers(*shape: int) -> Any:
            return like(np.random.default_rng(0).standard_normal(shape), particles)

        def of_particles() -> list[Product]:
            waves = numbers(n, m, b)
            in_waves = [Product.of(numbers(n, 2 * D, C), xp.permute_dims(numbers(n, b, C), (0, 2, 1)))]
            return [
                Product.of(E, numbers(n, d, b)),  # angles
                Product.of(xp.permute_dims(waves, (0, 2, 1)), numbers(n, m, C)),  # latent values
                Product.of(waves, numbers(n, b, C)),  # slopes in weights
                *(in_waves if C > 1 else []),
                Product.of(E.T, numbers(n, D, b)),  # slopes in length-scales
            ]

        self.of_particles = [of_particles() for _ in range(self.n_jobs)]  # threads share no memory
        S, roots = particles.shape[0], machine.frame.roots
        pairs = numbers(S, S)
        whole = [
            Product.of(particles, particles.T),  # distances of particles
            Product.of(pairs, particles),  # and their pushes
            Product.of(pairs, particles),
        ]
        self.of_all = [list(parts) for parts in zip(*(p.parts(self.n_jobs) for p in whole), strict=True)]
        for index, product in enumerate(of_roots(numbers(C, S, m), roots)):
            self.of_all[index % self.n_jobs].append(product)

    def compute(self) -> None:
        def group(index: int) -> None:
            for product in self.of_particles[index % self.n_jobs]:
                product.compute()

        def share(index: int) -> None:
            for product in self.of_all[index]:
                product.compute()

        for function, number in [(group, self.n_groups), (share, len(self.of_all))]:
            for _ in sweep(function, number, self.n_jobs):
                pass


def of_roots(z: Any, roots: Any) -> list[Product]:
    """Weights from coordinates, and slopes back: on the host panel by panel, without most zeros of the roots."""
    xp, panels = namespace(z), lower_panels(roots[0, :, :])
    if len(panels) == 1:
        return [Product.of(z, roots), Product.of(z, xp.permute_dims(roots, (0, 2, 1)))]
    each = [(coordinates, R, panel) for coordinates, R in zip(z, roots, strict=True) for panel in panels]
    forth = [Product.of(part[:, panel.start :], R[panel.start :, panel]) for part, R, panel in each]
    return forth + [Product.of(part[:, : panel.stop], R[panel, : panel.stop].T) for part, R, panel in each]


def clock_of(made: Setup) -> Callable[[Callable[[], Any]], float]:
    """What measures the seconds of some work: until the device has done it, if there is one."""
    on_host = isinstance(made.batch.X, np.ndarray)
    clock = time.process_time if on_host and made.machine.n_jobs == 1 else time.perf_counter

    def seconds(work: Callable[[], Any]) -> float:
        start = clock()
        work()
        if not on_host:
            wait_for(made.batch.X)
        return clock() - start

    return seconds


def wait_for(values: Any) -> None:
    if values.device.type == "cuda":
        import torch

        torch.cuda.synchronize()


def stages(made: Setup) -> Iterator[tuple[str, Callable[[], Any], int]]:
    """The stages of a step one after another, each with how often a step has it."""
    machine, (particles, *_), (X, y, _) = made.machine, made.state, made.batch
    rows, frame = ParticleRows(machine.rows, particles), machine.frame
    yield "weights from coordinates", lambda: frame.cloud(particles), 1
    cloud = frame.cloud(particles)
    yield "phases", lambda: rows.upright(cloud), 1
    cuts, (upright, phases) = rows.each(cloud, X.shape[0]), rows.upright(cloud)
    part, number, first = upright.part(cuts[0]), len(cuts), None if phases is None else phases[cuts[0]]
    yield "waves", lambda: rows.lift(X, part.theta, first), number
    lifted = rows.lift(X, part.theta, first)
    n, b = part.n_particles, X.shape[0]
    xp, E, A = namespace(X), rows.rows.frequencies[0], lifted.scaled[0]
    yield "  of these: angles, the product", lambda: E @ A, number
    angles = E @ A
    yield "  of these: cosines and sines", lambda: (xp.cos(angles), xp.sin(angles)), number
    yield "latent values", lambda: rows.latent(lifted, part), number
    f = rows.latent(lifted, part)
    labels, values = xp.concat([y] * n), xp.reshape(f, (n * b,) if f.shape[2] == 1 else (n * b, f.shape[2]))
    yield "slopes of the loss", lambda: score(machine.likelihood, labels, values), number
    g = xp.reshape(score(machine.likelihood, labels, values), f.shape)
    yield "slopes in weights and kernels", lambda: rows.pullback(lifted, part, g), number
    in_weights, in_theta = rows.pullback(lifted, part, g)
    of_weights, of_theta = (xp.concat([part] * number)[: cloud.n_particles] for part in (in_weights, in_theta))
    yield "slopes in coordinates", lambda: frame.pulled(of_weights, of_theta), 1
    scores = frame.pulled(of_weights, of_theta)
    kernel = travelling_kernel(*particles.shape)
    yield "Stein direction", lambda: kernel.direction(particles, scores), 1
    yield "Adam", lambda: Adam().advance(made.state, scores), 1


def profile(made: Setup, repeats: int) -> list[list[Any]]:
    """Milliseconds of each stage in a step, and the share of the step."""
    rows, seconds = [], clock_of(made)
    with one_blas_thread:
        whole = np.median([seconds(made.step) for _ in range(repeats)])
        for name, work, number in stages(made):
            seconds(work)
            each = float(np.median([seconds(lambda work=work: [work() for _ in range(4)]) for _ in range(repeats)])) / 4
            rows.append([name, f"{1e3 * number * each:.2f}", f"{number * each / whole:.0%}"])
    return [*rows, ["a step", f"{1e3 * whole:.2f}", ""]]


def measure(made: Setup, repeats: int) -> np.ndarray:
    """Seconds of a step and of its products, in turn."""
    products = Products(made)
    played = replayed(lambda _: products.compute(), made.batch.y)  # a device is told of them as a whole, too
    work, seconds = [made.step, lambda: played(made.batch.y)], clock_of(made)
    return np.array([[seconds(one) for one in work] for _ in range(repeats + 1)])[1:]  # the first calls are slow


def reference_on(device: str) -> Any:
    """A float32 number where the work is to be done."""
    if device == "cpu":
        return np.zeros(1, dtype=np.float32)
    import torch

    torch.set_num_threads(1)
    return torch.zeros(1, dtype=torch.float32, device=device.removeprefix("torch-"))


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", choices=["cpu", "cuda", "torch-cpu"], default="cpu")
    parser.add_argument("--particles", type=int, default=100)


def main() -> None:
    args = arguments(__doc__, options)
    reference = reference_on(args.device)
    n_particles, n_frequencies, repeats = (8, 64, 3) if args.quick else (args.particles, 512, 15)
    jobs = [1, 2] if args.device == "cpu" else [1]
    rows, value, profiles = [], {}, {}
    for case in CASES:
        for n_jobs in jobs:
            made = setup(case, n_particles, n_frequencies, n_jobs, reference)
            found = measure(made, repeats)
            ratios = found[:, 1] / found[:, 0]
            name = case.name + (f", {n_jobs} threads" if n_jobs > 1 else "")
            value[name] = round(float(np.median(ratios)), 3)
            own, products = 1e3 * np.median(found, axis=0)
            rows.append(
                [name, f"{own:.2f}", f"{products:.2f}", f"{ratios.min():.2f}", f"{ratios.max():.2f}", value[name]]
            )
            if n_jobs == 1:
                profiles[case.name] = profile(made, repeats)
    print(f"{n_particles} particles, {n_frequencies} frequencies, {N_ROWS} rows, float32, on {args.device}\n")
    print_table(["case", "ms a step", "ms its products", "least", "most", "median"], rows)
    for name, stage_rows in profiles.items():
        print(f"\n{name}, one thread\n")
        print_table(["stage", "ms", "of the step"], stage_rows)
    print()
    report("stein_speed", {"device": args.device, **value}, TARGET, min(value.values()) >= TARGET)


if __name__ == "__main__":
    main()
