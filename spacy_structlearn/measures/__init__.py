"""Measures of syntactic complexity, from trees."""
