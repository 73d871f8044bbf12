"""Which columns are chosen, and classes that stay as they are while another one is thought over."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from softmargin.gaussian import ClassBelief, with_hyper
from softmargin.imputation import ColumnModel
from softmargin.priors import Classwise, LaplaceZero, Structured, VarianceComponents
from softmargin.priors.held import Held
from softmargin.priors.imputing import Known, choices

PRIOR = Structured(LaplaceZero(3))
GAUSSIAN = VarianceComponents(np.zeros(3, dtype=int))


def sums(seed):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(6, 3))
    return A.T @ A, rng.normal(size=3)


def chosen(*included):
    """A belief in which columns are in with these probabilities."""
    belief = PRIOR.update(*sums(0))
    fixed = belief.hyper.fixed._replace(included=np.array(included))
    return with_hyper(belief, belief.hyper._replace(fixed=fixed))


def test_a_column_is_in_where_that_is_more_likely_than_not():
    """Of each class; and with a model of the columns beside the weights as without one."""
    one, two = chosen(0.9, 0.4, 0.6), chosen(0.1, 1.0, 0.0)
    assert_array_equal(choices(one), [[True, False, True]])
    assert_array_equal(choices(ClassBelief((one, two))), [[True, False, True], [False, True, False]])
    columns = ColumnModel.standard(3)
    beside = with_hyper(one, Known(one.hyper, columns.updated(columns.start(20.0))))
    assert_array_equal(choices(beside), choices(one))


def test_a_class_that_is_held_promises_nothing_and_stays():
    """An ascent of several classes of which one alone is free promises what that one does."""
    (G, h), (dG, dh) = sums(0), sums(1)
    held, free = GAUSSIAN.update(G, h), GAUSSIAN.update(G, 2 * h)
    prior = Classwise((Held.at(GAUSSIAN, held), GAUSSIAN, Held.at(GAUSSIAN, held)))
    belief = ClassBelief((held, free, held))
    alone = GAUSSIAN.promised(G, dG, dh, free)
    assert alone > 0
    assert prior.promised((G,) * 3, (dG,) * 3, (dh,) * 3, belief) == pytest.approx(alone)
    after = prior.update((G + dG,) * 3, (h + dh,) * 3, belief)
    assert after.parts[0] is after.parts[2] is held
    assert prior.kl(belief) == pytest.approx(sum(GAUSSIAN.kl(part) for part in belief.parts))
