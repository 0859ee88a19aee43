"""The views, on recorded runs. The readers that other projects wrote for these formats are in `tests/readers/`."""
