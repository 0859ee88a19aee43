"""Reads spans as runs, for all formats whose files have spans.

`span.py` has the classes for a span and its meaning. `span_files.py` and the formats' own modules make spans from
files. A vocabulary (`vocabularies/`) reads the meaning of a span's attributes. `messages.py` and `payloads.py` read
messages, requests and responses in attributes. `tree.py` finds the spans around each span, and `trace.py` makes the
run.
"""
