"""Constituency trees: reading, writing and normalising them, their heads and chunks."""
