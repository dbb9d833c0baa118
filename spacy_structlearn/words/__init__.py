"""Spelling and base forms of words."""
