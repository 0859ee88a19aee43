"""The vocabularies of spans.

For each vocabulary, a function returns the meaning of a span's attributes, or None for a span without attributes of the
vocabulary. `trace.py` in the folder above calls all of these functions.
"""
