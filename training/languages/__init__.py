"""Pipelines of other languages than English, each trained by one command."""
