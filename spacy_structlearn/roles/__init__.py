"""Semantic roles: propositions, phrases that can fill a role and their features, and clauses."""
