"""Conversations: which call continues which, what is new in each, and which results belong to which tool call."""
