"""Measures on plain data: pure functions that know nothing of spaCy."""
