"""scikit-learn's own opinion: every check, no failure expected."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from softmargin import BayesianLinearSVC, BayesianMixedSVC, BayesianOneClassSVM, BayesianSVC
from softmargin.tables import TableClassifier, TableEncoder

ESTIMATORS = [
    BayesianSVC(),
    BayesianSVC(loss="hinge-augmented", inference="batch"),
    BayesianSVC(loss="logistic", link="probit"),
    BayesianSVC(n_inducing=20),
    BayesianLinearSVC(),
    BayesianLinearSVC(loss="hinge-augmented"),
    BayesianLinearSVC(loss="logistic", prior=1.0),
    BayesianLinearSVC(prior="ard", fit_intercept=False),
    BayesianMixedSVC(),
    BayesianMixedSVC(loss="logistic", prior="laplace-zero"),
    BayesianMixedSVC(prior="ard", fit_intercept=False),
    BayesianMixedSVC(kernel="rbf", loss="logistic"),
    BayesianOneClassSVM(),
    TableEncoder(),
    TableClassifier(),
    TableClassifier(BayesianLinearSVC()),
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_check(estimator, check):
    check(estimator)
