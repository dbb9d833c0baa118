"""The workbench: its server, and annotation with it."""
