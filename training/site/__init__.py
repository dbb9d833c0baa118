"""The documentation as a site: see build."""
