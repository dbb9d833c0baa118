"""Minimisers that can be stopped and resumed: L-BFGS, OWL-QN, AdaGrad and M-estimation."""
