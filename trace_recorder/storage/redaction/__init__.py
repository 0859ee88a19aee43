"""Redaction: secrets are found by their shape, their name or their value, and masked before anything is written."""
