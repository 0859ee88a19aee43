"""The runs of `tests/formats/conftest.py`, for the tests of figures."""

from tests.formats.conftest import paths, trajectories

__all__ = ["paths", "trajectories"]
