"""Minimisers that can be stopped and resumed: L-BFGS, OWL-QN and M-estimation."""
