"""The schemas of the two files on disk: pydantic models, and the JSON Schemas that are generated from them.

Only `json_schema.py` and `validate.py` import these models: recording, loading and listing do without pydantic.
"""
