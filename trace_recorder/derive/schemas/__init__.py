"""The schemas of the two files on disk: models for pydantic, and the JSON Schemas that `json_schema.py` makes of them.

Only `json_schema.py` and `validate.py` import these models: whoever records, loads or lists does without pydantic.
"""
