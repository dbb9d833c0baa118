"""Annotation of sentences: what is asked, corrected, kept and learned. No web framework is used."""
