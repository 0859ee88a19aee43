"""Runs as OpenTelemetry spans, by the GenAI conventions and OpenInference's, and as OTLP JSON."""
