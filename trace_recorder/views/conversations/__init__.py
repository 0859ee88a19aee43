"""Conversations: which call goes on from which, what is new in each, and which tool answered what."""
