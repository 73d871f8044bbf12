"""What people meet first: the import, notebooks, routing of weights, the package itself."""

import importlib.metadata
import subprocess
import sys
from importlib.resources import files

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose
from sklearn.datasets import load_iris
from sklearn.metrics import get_scorer
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import softmargin
from softmargin import BayesianLinearSVC, BayesianMixedSVC, BayesianSVC, FourierFeatures
from softmargin.kernels import RBF, Linear, Matern, White
from softmargin.tables import TableClassifier, TableEncoder


def test_the_version_is_that_of_the_package():
    assert softmargin.__version__ == importlib.metadata.version("softmargin")


def test_types_are_for_users_too():
    assert files(softmargin).joinpath("py.typed").is_file()


def test_the_import_brings_nothing_that_it_does_not_need():
    """Extras, and parts of scikit-learn that bring all others, are imported when they are used."""
    bare = "import sys, sklearn.base, sklearn.pipeline; before = set(sys.modules); import softmargin; "
    code = bare + "print(*sorted({name.partition('.')[0] for name in set(sys.modules) - before}))"
    brought = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert set(brought) <= {
        "softmargin",
        "array_api_compat",
        "scipy",
        "sklearn",
        "numpy",
        "threadpoolctl",
        "joblib",
    } | set(sys.stdlib_module_names)
    code = "import sys, softmargin; print(*(name for name in sys.modules if name.startswith('sklearn.')))"
    parts = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    heavy = {"cluster", "mixture", "ensemble", "neighbors", "tree", "svm", "gaussian_process", "datasets"}
    assert not heavy & {name.split(".")[1] for name in parts}


@pytest.mark.parametrize(
    "model", [BayesianSVC(), BayesianLinearSVC(), BayesianMixedSVC(), TableClassifier(BayesianSVC())]
)
def test_notebooks_show_estimators(model):
    html = model._repr_html_()
    assert type(model).__name__ in html
    assert "<style>" in html


def test_notebooks_show_kernels():
    kernel = 2.0 * RBF([3.0, 0.5]) + White(0.1)
    html = kernel._repr_html_()
    assert html.startswith("<code>2.0 * RBF(length_scale=(3.0, 0.5)) + White(variance=0.1)</code>")
    assert html.index("length-scale of column 1</td><td>0.5") < html.index("length-scale of column 0</td><td>3")
    assert "<td>variance</td><td>0.1</td>" in html
    assert "found by the fit" in Matern()._repr_html_()
    wide = (RBF(np.arange(1.0, 101.0)) + Linear(1.0))._repr_html_()
    assert "92 longer ones</td><td>up to 100" in wide
    assert len(wide) < 2000


@pytest.mark.parametrize("model", [BayesianLinearSVC(), TableClassifier(BayesianLinearSVC())])
def test_weights_are_routed(model):
    """Weights that are asked for reach the fits of a cross-validation, through a pipeline."""
    X, y = load_iris(return_X_y=True)
    weight = np.where(y == 0, 0.01, 1.0)
    with sklearn.config_context(enable_metadata_routing=True):
        asking = sklearn.base.clone(model).set_fit_request(sample_weight=True)
        pipeline = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), asking)
        scorer = get_scorer("accuracy").set_score_request(sample_weight=True)
        options = {"return_estimator": True, "return_indices": True, "params": {"sample_weight": weight}}
        found = cross_validate(pipeline, X, y, scoring=scorer, **options)
    train = found["indices"]["train"][0]
    scaled = StandardScaler().fit_transform(X[train])
    alone = sklearn.base.clone(model).fit(scaled, y[train], sample_weight=weight[train])
    assert_allclose(found["estimator"][0][-1].predict_proba(scaled), alone.predict_proba(scaled), atol=1e-8)


@pytest.mark.parametrize("transformer", [FourierFeatures(random_state=0), TableEncoder()])
def test_transformers_give_frames_on_request(transformer):
    X, _ = load_iris(return_X_y=True, as_frame=True)
    out = transformer.set_output(transform="pandas").fit_transform(X)
    assert out.columns.tolist() == transformer.get_feature_names_out().tolist()
    assert out.index.equals(X.index)
