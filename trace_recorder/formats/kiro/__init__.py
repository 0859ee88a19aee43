"""Kiro CLI's sessions as lines, and the conversations in the database of Kiro CLI and Amazon Q."""
