"""Exporters, which send runs to tracing services, during a run and afterwards."""
