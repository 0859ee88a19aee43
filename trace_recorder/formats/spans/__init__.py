"""Spans of OpenTelemetry, in the vocabularies of OTel GenAI, OpenInference and services.

`reading/` makes runs from spans, for all formats whose files have spans. `writing/` makes spans from runs, for files
and for exporters.
"""
