"""Labels over tokens: chains, by likelihoods or by counting. Smith, Vail & Lafferty (2007)."""
