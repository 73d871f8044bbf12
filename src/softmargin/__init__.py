"""Kernel classifiers that know how sure they are."""

__version__ = "0.1.0.dev0"
