"""Training data in parts, over threads and over the machines of a Ray cluster."""
