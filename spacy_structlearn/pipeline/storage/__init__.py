"""Stored pipelines: their folders, digests and shared word classes."""
