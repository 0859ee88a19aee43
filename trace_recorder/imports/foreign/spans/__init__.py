"""Spans as runs, for all formats that have spans.

`span.py` is a span and its meaning. `span_files.py` and the formats' own modules make spans from files. A vocabulary
(`vocabularies/`) says what the attributes of a span mean; `messages.py` and `payloads.py` read messages, requests and
responses in attributes. `tree.py` finds the spans around each span, and `trace.py` makes the run.
"""
