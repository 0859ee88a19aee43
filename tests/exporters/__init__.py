"""Tests of the exporters with a real local server that receives spans."""
