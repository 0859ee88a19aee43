"""Tests of comparing values, texts and runs."""
