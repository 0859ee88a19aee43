"""The schemas of the two files on disk: models for pydantic, and the JSON Schemas that `schema.py` makes of them.

Only `schema.py` and `validation.py` import these models: whoever records, loads or lists does without pydantic.
"""
