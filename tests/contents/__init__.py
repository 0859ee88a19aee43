"""The contents of exports, compared with what was exchanged: a script of both sides, and the content of each format."""
