"""A reader of reports that knows nothing of how they are made, and classifiers to report on."""

from html.parser import HTMLParser

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_breast_cancer

from softmargin import BayesianSVC

VOID = {"meta", "br"}
#: Captions of tables.
MEASURES, CONFUSION = "Measures of the probabilities", "Confusion matrix"
HOSTILE = [
    "</script><script>document.title='owned'</script>",
    '"><img src=x onerror="document.title=\'owned\'">',
    "<svg onload=document.title='owned'>",
    "--></title></style><b>",
    "javascript:alert(1)",
    "' onmouseover='document.title=1",
    "{{7*7}}${7*7}",
    "a\u202eb\u2066c",
    "nul\x00bell\x07escape\x1b[31m",
    "half a pair \ud800",
    "&lt;b&gt;&amp;#x3c;",
    "x" * 10_000,
    "",
]


class Page(HTMLParser):
    """The elements of a page in order, its tables by caption, and the text of each element with an id."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.tables, self.by_id, self.words = [], {}, {}, []
        self._open, self._rows, self._caption = [], None, ""
        self.feed(text)
        self.close()
        assert not self._open, f"never closed: {self._open}"

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append((tag, dict(attrs)))
        if tag == "table":
            self._rows, self._caption = [], ""
        elif tag == "tr":
            self._rows.append([])
        elif tag in ("td", "th"):
            self._rows[-1].append("")

    def handle_endtag(self, tag):
        opened, _ = self._open.pop()
        assert opened == tag, f"{opened} was closed by {tag}"
        if tag == "table":
            assert self._caption not in self.tables, f"two tables are called {self._caption}"
            self.tables[self._caption] = self._rows

    def handle_data(self, data):
        tags = [tag for tag, _ in self._open]
        if "script" in tags or "style" in tags:
            return
        self.words.append(data)
        for _, attributes in self._open:
            if "id" in attributes:
                self.by_id[attributes["id"]] = self.by_id.get(attributes["id"], "") + data
        if "caption" in tags:
            self._caption += data
        elif "td" in tags or "th" in tags:
            self._rows[-1][-1] += data

    @property
    def tags(self):
        return [tag for tag, _ in self.elements]

    @property
    def text(self):
        return "".join(self.words)

    def column(self, caption, name):
        """The entries of a column of a table, without its head."""
        rows = self.tables[caption]
        return [row[rows[0].index(name)] for row in rows[1:]]


class Told(ClassifierMixin, BaseEstimator):
    """A classifier whose probabilities are given: row by row, whatever the row."""

    def __init__(self, proba, classes):
        self.proba, self.classes = proba, classes

    def fit(self, X=None, y=None):
        self.classes_ = np.asarray(self.classes)
        return self

    def predict_proba(self, X):
        return np.asarray(self.proba)[: len(X)]


def frame_of(names, columns):
    """A frame of objects: pandas would rather not take half a pair of surrogates for a text."""
    values = np.array([list(column) for column in columns], dtype=object).T
    return pd.DataFrame(values, columns=pd.Index(names, dtype=object), dtype=object)


def number(text):
    """A number as a report writes it."""
    return float(text.replace("\N{MINUS SIGN}", "-").replace(",", "").replace("\N{NO-BREAK SPACE}%", "").split(" ")[0])


def some_tumours():
    """Four columns of scikit-learn's table: rows and labels to fit, rows and labels to report on."""
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X, y = X.iloc[:, [0, 1, 6, 20]], y.map({0: "malignant", 1: "benign"})
    return X[::2], y[::2], X[1::2], y[1::2]


def fitted_svc(tumours):
    return BayesianSVC(random_state=0, n_inducing=30).fit(*tumours[:2])
