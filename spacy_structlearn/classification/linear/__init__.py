"""Conditional log-linear models: the objective and the classifier."""
