"""Capture: the seams of the HTTP libraries, and the exchange that they share. It imports no SDK."""
