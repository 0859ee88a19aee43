"""Comparing: two JSON values, two texts by word, and two runs step by step."""
