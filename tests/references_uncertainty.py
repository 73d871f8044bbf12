"""Naive versions of what `softmargin.uncertainty` finds: one integral at a time, or many draws."""

import numpy as np
from scipy.special import entr, expit, ndtr, softmax

import references

#: Edges of panels around everything that bends, in units of its width.
_AROUND = np.array([-8, -6, -4, -3, -2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2, 3, 4, 6, 8])


def winning(mu, v):
    """The probability of each class of one row to be the largest: over its own Gaussian, all others below it."""
    s, P = np.sqrt(v), np.empty(len(mu))
    for k in range(len(mu)):
        others = [j for j in range(len(mu)) if j != k]
        edges = np.concatenate([mu[j] + s[j] * _AROUND for j in others])

        def all_below(f, others=others):
            out = np.ones(np.shape(f))
            for j in others:
                tie = np.where(f == mu[j], 0.5, f > mu[j])
                out *= tie if s[j] == 0 else ndtr((f - mu[j]) / s[j])
            return out

        P[k] = references.normal_expectation(all_below, mu[k], v[k], kinks=edges)
    return P


def winning_by_draws(mu, v, n_draws, rng):
    """How often each class of one row has the largest of many draws."""
    draws = mu + np.sqrt(v) * rng.normal(size=(n_draws, len(mu)))
    return np.bincount(draws.argmax(axis=1), minlength=len(mu)) / n_draws


def information_of_two(mu, v, link):
    """``H[E p] - E H[p]`` of one row of two classes, by quadrature around the place where the label is open."""
    slope, offset = getattr(link, "slope", 1.0), getattr(link, "offset", 0.0)
    edges = (np.array([-40, -20, -10, -5, -2, 0, 2, 5, 10, 20, 40]) - offset) / slope

    def p(f):
        return expit(link.score(f, np.zeros(np.shape(f))))

    def openness(f):
        return entr(p(f)) + entr(expit(-link.score(f, np.zeros(np.shape(f)))))

    mean = min(references.normal_expectation(p, mu, v, kinks=edges), 1.0)
    return entr(mean) + entr(1 - mean) - references.normal_expectation(openness, mu, v, kinks=edges)


def information_by_draws(scores):
    """``H[E p] - E H[p]`` of one row, from the scores of its classes in many draws, a row each."""
    p = softmax(scores, axis=1)
    return entr(p.mean(axis=0)).sum() - entr(p).sum(axis=1).mean()
