"""The JSON Schemas of the document and the journal: how they are made, and how files are checked with them."""
