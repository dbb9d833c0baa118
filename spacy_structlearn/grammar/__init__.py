"""Trees by latent grammars: Petrov & Klein (2007), "Discriminative log-linear grammars with latent
variables", and the split-merge training that it builds on (Petrov, Barrett, Thibaux & Klein 2006).
"""
