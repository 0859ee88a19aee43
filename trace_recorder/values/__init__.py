"""Values: what a run is made of, and any Python value as plain JSON. No file is read or written here."""
