"""The version of this package: the only place that says it. Journals, exports and the wheel take it from here."""

__version__ = "0.1.0"
