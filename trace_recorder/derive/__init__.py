"""All meaning, stated once: journal → trajectory → document."""
