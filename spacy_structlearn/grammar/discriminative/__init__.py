"""Latent grammars trained by conditional likelihood (Petrov & Klein 2007, sections 3 and 4)."""
