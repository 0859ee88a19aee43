"""Derives the meaning of the records, in one place: journal → trajectory → document."""
