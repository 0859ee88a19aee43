"""Items: what is sent again and again is stored once, and expanded again when it is read."""
