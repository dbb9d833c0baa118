"""Reports on predictions: what is wrong, by layer and kind, and what differs between two models."""
