"""Training data in parts, over threads."""
