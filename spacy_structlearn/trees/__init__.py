"""Trees, reading and writing them, and all that asks questions of a tree."""
