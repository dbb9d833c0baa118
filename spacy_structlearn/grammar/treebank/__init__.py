"""Treebanks as arrays: symbols, rules and words."""
