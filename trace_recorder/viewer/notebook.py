"""A run in a notebook's cell: the page of the one self-contained file, in a frame of its own.

The frame may run the page's script and nothing else: it has no origin, so that it reaches neither the notebook nor its
cookies, and the page's policy lets it connect to nothing.
"""

from __future__ import annotations

from html import escape
from importlib import import_module

from trace_recorder.errors import MissingExtraError
from trace_recorder.values.trajectory import Trajectory
from trace_recorder.viewer.one_file import one_file

DEFAULT_HEIGHT = 640
"""The height of the frame in pixels."""


class Transcript:
    """A run as a notebook shows it."""

    def __init__(self, trajectory: Trajectory, height: int = DEFAULT_HEIGHT) -> None:
        self._trajectory = trajectory
        self._height = int(height)

    def __repr__(self) -> str:
        return f"Transcript({self._trajectory!r})"

    def _repr_html_(self) -> str:
        page = escape(one_file(self._trajectory), quote=True)
        return (
            f'<iframe sandbox="allow-scripts" srcdoc="{page}" title="trajectory" '
            f'style="width:100%;height:{self._height}px;border:1px solid #8888"></iframe>'
        )


def display(trajectory: Trajectory, height: int = DEFAULT_HEIGHT) -> None:
    """Show a run in a notebook's cell: its folded transcript, with all that the viewer has. `height` is in pixels.

    Raises TypeError for what is no run, and MissingExtraError outside of IPython, where it is not installed.
    """
    if not isinstance(trajectory, Trajectory):
        raise TypeError(f"display() takes a run, and was given {trajectory!r}. Write display(load(path)) for a file.")
    try:
        notebook = import_module("IPython.display")
    except ImportError as error:
        raise MissingExtraError(
            "display() shows a run in a notebook, and IPython is not installed here. `trace-recorder view` shows it in "
            "a browser."
        ) from error
    notebook.display(Transcript(trajectory, height))
