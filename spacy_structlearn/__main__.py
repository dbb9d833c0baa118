"""`python -m spacy_structlearn` is the console script `structlearn`."""

from .cli import main

main()
