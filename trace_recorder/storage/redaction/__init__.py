"""Redaction: secrets are found by their form, by the name before them or by their value, and masked before writing."""
