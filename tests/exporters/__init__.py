"""Tests of the exporters, by a real local server that takes spans."""
