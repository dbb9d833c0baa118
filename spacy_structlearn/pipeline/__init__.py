"""What spaCy sees: one component a file, and the registered functions around them."""
