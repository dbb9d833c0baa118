"""Latent grammars learned by EM, with splits and merges (Petrov et al. 2006)."""
