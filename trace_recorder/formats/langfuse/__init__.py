"""Langfuse: traces in exported files (`reading.py`), and traces that its server keeps (`service.py`)."""
