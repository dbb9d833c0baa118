"""Semantic roles: propositions, the phrases that can fill a role, and their features."""
