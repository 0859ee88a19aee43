"""The schemas of the two files on disk: models for pydantic, and the JSON Schemas that `schema.py` makes of them."""
