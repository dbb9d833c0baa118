"""Classifiers of nominal data: tables of strings, with one label for a row. Toutanova (2006)."""

from .features import Table
from .linear.log_linear import LogLinear
from .nets.bayes_net import BayesNet
from .settings import BayesNetSettings, LogLinearSettings, StagesSettings
from .stages import Stages
from .trainers import fit

__all__ = [
    "BayesNet",
    "BayesNetSettings",
    "LogLinear",
    "LogLinearSettings",
    "Stages",
    "StagesSettings",
    "Table",
    "fit",
]
