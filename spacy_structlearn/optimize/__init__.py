"""Minimisers that can be stopped and resumed: L-BFGS and, for L1 penalties, OWL-QN."""
