"""Measures of syntactic complexity, from trees.

`complexity` has the counts and indices of Lu (2010), `depths` the depths of words and trees, and
`totals` all of them, as sums that can be added.
"""
