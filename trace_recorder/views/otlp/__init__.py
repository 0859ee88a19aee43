"""Runs as OpenTelemetry spans: what each span holds, by the GenAI conventions and OpenInference's, and OTLP JSON."""
