"""Kernels of the passes over a chart, and what they share; `.._chart` calls them."""
