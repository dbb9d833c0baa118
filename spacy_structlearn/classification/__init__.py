"""Classifiers of nominal data: tables of strings, with one label for a row. Toutanova (2006)."""

from .bayes_net import BayesNet
from .features import Table
from .log_linear import LogLinear
from .settings import BayesNetSettings, LogLinearSettings, StagesSettings
from .stages import Stages

__all__ = [
    "BayesNet",
    "BayesNetSettings",
    "LogLinear",
    "LogLinearSettings",
    "Stages",
    "StagesSettings",
    "Table",
]
