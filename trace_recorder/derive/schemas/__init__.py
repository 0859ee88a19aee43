"""The JSON Schemas of the two files on disk: made of the classes of the values, shipped, and checked by."""
