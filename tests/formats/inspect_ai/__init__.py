"""Tests of Inspect AI's logs."""
