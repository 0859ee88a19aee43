"""The vocabularies of spans: for each a function that says what the attributes of a span mean.

It returns None for a span without attributes of its vocabulary. `trace.py` above asks all of them.
"""
