"""scikit-learn's own opinion: every check, no failure expected."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from softmargin import BayesianLinearSVC, BayesianMixedSVC, BayesianOneClassSVM, BayesianSVC
from softmargin.tables import TableClassifier, TableEncoder

ESTIMATORS = [
    BayesianSVC(),
    BayesianSVC(loss="hinge-augmented", inference="batch", n_inducing=20),
    BayesianSVC(loss="logistic", link="probit"),
    BayesianLinearSVC(),
    BayesianLinearSVC(loss="hinge-augmented", prior="ard", fit_intercept=False),
    BayesianLinearSVC(loss="logistic", prior=1.0),
    BayesianMixedSVC(),
    BayesianMixedSVC(loss="logistic", prior="laplace-zero"),
    BayesianMixedSVC(prior="ard", fit_intercept=False),
    # Labels that are noise take some 130 passes, and on some machines more than the usual 200.
    BayesianMixedSVC(kernel="rbf", n_inducing=10, loss="logistic", max_iter=1000),
    BayesianOneClassSVM(),
    TableEncoder(),
    TableClassifier(),
    TableClassifier(BayesianLinearSVC()),
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore:The first batch has")  # the checks stream few rows
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_check(estimator, check):
    check(estimator)
