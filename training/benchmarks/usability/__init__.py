"""What users do with trees, in training/results/usability.json: see __main__."""
