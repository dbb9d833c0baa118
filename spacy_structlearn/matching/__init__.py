"""Search in trees by patterns of nodes and their relations, in the manner of Tregex (Levy & Andrew
2006, "Tregex and Tsurgeon: tools for querying and manipulating tree data structures").

`patterns` compiles patterns, of which `tregex` reads the form of strings. `forest` has the nodes of
many trees as arrays, `relations` the relations of nodes, and `search` joins them.
"""
