"""The version, read by the build as well as at run time: keep this file free of imports."""

__version__ = "0.1.0"
