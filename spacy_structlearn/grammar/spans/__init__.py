"""Scores of spans over the forests of a grammar: linear features and a network."""
