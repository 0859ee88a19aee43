"""Services of traces: their own clients, against a local server."""
