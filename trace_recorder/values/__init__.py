"""The values of a run, and the conversion of any Python value to JSON. No file is read or written here."""
