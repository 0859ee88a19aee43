"""Other tools' formats, read and written. The readers that other projects wrote for them are in `tests/readers/`."""
