"""Content: what messages and answers are made of, whichever dialect they came in."""
