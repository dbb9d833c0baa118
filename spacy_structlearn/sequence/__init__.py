"""Labels over tokens: chains by conditional likelihood, perceptron and counting. Smith, Vail &
Lafferty (2007).
"""
