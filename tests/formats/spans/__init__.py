"""Tests of runs as OpenTelemetry spans."""
