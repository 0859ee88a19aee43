"""Trees of spans, whoever wrote them, as runs: one trace is one run.

`span.py` is a span; `otlp.py`, `console.py` and the formats' own modules make them from files. A vocabulary
(`vocabularies/`) says what the attributes of a span mean, as a `Reading`. `trace.py` makes one run of the spans of one
trace: which span is a call, a tool or an agent, and which lies in which. `messages.py` and `payloads.py` read what
attributes hold as JSON: messages, requests and responses in the forms of providers and frameworks.
"""
