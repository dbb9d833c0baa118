"""The spaCy components, one per file, and the registered functions around them."""
