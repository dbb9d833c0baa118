"""What a chain reads: predicates of symbols, columns of words and layout, and tags of chunks."""
