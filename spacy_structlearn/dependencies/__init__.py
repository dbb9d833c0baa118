"""Dependencies of trees: arcs between the heads of phrases and their sisters."""
