"""Minimisers that can be stopped and resumed, L-BFGS and, for L1 penalties, OWL-QN; the objective
of M-estimation; and sums over training data that is kept in parts."""
