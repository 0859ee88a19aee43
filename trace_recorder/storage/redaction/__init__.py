"""Redaction: secrets are found by their form, their name or their value, and masked before anything is written."""
