"""The views, on runs really recorded; the readers that others wrote for these formats are in `tests/readers/`."""
