"""Vectors of tokens in context, by a pretrained encoder."""
