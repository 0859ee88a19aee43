"""The vocabularies of spans.

Each has a function that returns the meaning of a span's attributes, or None for a span without attributes of the
vocabulary. `trace.py` in the folder above calls all of these functions.
"""
