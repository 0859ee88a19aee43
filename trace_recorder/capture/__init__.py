"""Capture: the HTTP transport that records, and finding it inside each SDK's client. It imports no SDK."""
