"""A fixture for the runs of every structure that views are tested with."""

from tests.formats.conftest import paths, trajectories

__all__ = ["paths", "trajectories"]
