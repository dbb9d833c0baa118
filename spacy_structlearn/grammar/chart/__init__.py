"""Parsing: coarse-to-fine passes over a chart, the packed forest they leave, and its decoders."""
