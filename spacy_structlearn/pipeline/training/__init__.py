"""Training of components that need all their data at once."""
