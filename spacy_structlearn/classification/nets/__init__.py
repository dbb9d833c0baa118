"""Bayesian networks: counts, smoothing, structure and the classifier."""
