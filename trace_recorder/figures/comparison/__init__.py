"""Comparisons: of two JSON values, of two texts by word, and of two runs step by step."""
