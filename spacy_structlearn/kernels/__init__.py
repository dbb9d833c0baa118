"""C code that several kernels share."""
