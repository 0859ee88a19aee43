"""The viewer's page with its data, and a run as one self-contained HTML file, which works from disk and offline.

Recorded text may contain anything. In the page, recorded text is JSON in a script element that browsers do not run. The
JSON has no `<`, so recorded text cannot end the element. A policy allows the page's one script and one style by their
hashes.

The file of a run is the page with all answers about the run. The data of the file are sections of compressed JSON. A
tool's result is in a message, in a step and in a raw request. So the section `texts` has every long text once. In the
other sections, a name stands for the text: a string of `MARK` and the number of the text. A recorded text that begins
with `MARK` is in `texts` too, however short, so no recorded text is read as a name.

In a notebook the file is in a frame that may only run the page's script. The frame has no origin, so the page reaches
neither the notebook nor the notebook's cookies. The page's policy forbids connections.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from html import escape
from importlib import import_module
from importlib.resources import files
from itertools import chain

from trace_recorder.dialects.json_access import map_inside
from trace_recorder.errors import MissingExtraError
from trace_recorder.values.json_text import make_json_writer
from trace_recorder.values.messages import Payload
from trace_recorder.values.trajectory import Trajectory
from trace_recorder.viewer.comparing import RunComparison
from trace_recorder.viewer.interface import RunAnswers
from trace_recorder.viewer.parts import WHOLE, Json


def one_file(trajectory: Trajectory, name: str = "run") -> str:
    """Return the HTML of a run. No text is cut, and the page fetches nothing. `name` is the run's id in the page."""
    return page_with(_file(trajectory, name), content_security_policy())


def two_runs_file(a: Trajectory, b: Trajectory, names: tuple[str, str]) -> str:
    """Return the HTML of two runs side by side."""
    comparison = RunComparison(a, b)
    compared = {"compare": comparison.to_json(), "pairs": comparison.differences()}
    runs = {"a": _file(a, names[0]), "b": _file(b, names[1])}
    return page_with({"kind": "comparison", **runs, "sections": packed_sections(compared)}, content_security_policy())


def several_runs_file(runs: Iterable[tuple[Trajectory, str]]) -> str:
    """Return the HTML of several runs with their names: a list in which each run opens as its own page.

    Each page is in a frame, as in a notebook. The list has no script, and its policy is the policy of the pages.
    """
    frames = [
        f'<details name="run"><summary>{escape(name)}</summary><iframe sandbox="allow-scripts" loading="lazy" '
        f'title="{escape(name, quote=True)}" srcdoc="{escape(one_file(run, name), quote=True)}"></iframe></details>'
        for run, name in runs
    ]
    digest = base64.b64encode(hashlib.sha256(_LIST_STYLE.encode()).digest()).decode()
    policy = content_security_policy().replace("style-src ", f"style-src 'sha256-{digest}' ", 1)
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n{_POLICY.format(policy)}\n<meta charset="utf-8">\n'
        f"<title>{len(frames)} runs</title>\n<style>{_LIST_STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(frames)
        + "\n</body>\n</html>\n"
    )


_LIST_STYLE = (
    ":root{color-scheme:light dark}body{margin:0;font:15px system-ui,sans-serif}"
    "summary{padding:.6em 1em;cursor:pointer;border-bottom:1px solid #8884}"
    "iframe{width:100%;height:calc(100vh - 3em);border:0}"
)


def _file(trajectory: Trajectory, name: str) -> Json:
    return {"kind": "file", "id": name, "sections": packed_sections(run_data(trajectory, name))}


def run_data(trajectory: Trajectory, name: str) -> Json:
    """Return all answers about a run, by the names of their sections."""
    answers = RunAnswers(trajectory)
    outline = answers.outline(WHOLE)
    counts = outline["counts"]
    interactions, steps = range(1, counts["interactions"] + 1), range(1, counts["steps"] + 1)
    return {
        "run": {"version": "1", "id": name, "writable": False, **outline},
        "messages": answers.messages(range(counts["messages"]), WHOLE),
        "interactions": answers.interactions(interactions, WHOLE),
        "steps": answers.steps(steps, WHOLE, server_messages=True),
        "items": answers.items(range(counts["items"])),
        "raw": {str(number): answers.raw(number) for number in interactions},
    }


# ── the data of the file ─────────────────────────────────────────────────────────────────────────────────────────────


MARK = "\u0001"
"""A name that stands for a long text begins with this character."""
LONG_CHARACTERS = 128
"""`texts` has all texts of at least this length."""
_LEVEL = 3
"""The level of zlib. Level 6 makes files 6 % smaller, and takes two and a half times as long."""


def packed_sections(sections: Mapping[str, Payload]) -> dict[str, str]:
    """Return the sections, and the section of their long texts, as base64 of zlib-compressed JSON."""
    texts = _LongTexts()
    compressed = {name: _compressed(texts.replaced_in(value)) for name, value in sections.items()}
    return {**compressed, "texts": _compressed(texts.values)}


def _compressed(value: Payload) -> str:
    return base64.b64encode(zlib.compress(ascii_json(value).encode(), _LEVEL)).decode()


class _LongTexts:
    """The long texts of a run. The number of a text is its position in `values`."""

    def __init__(self) -> None:
        self.values: list[str] = []
        self._names: dict[str, str] = {}

    def replaced_in(self, value: Payload) -> Payload:
        """Return a copy of a value with names for its long texts.

        The value may have any depth, because there is no recursion.
        """
        whole: list[Payload] = [value]
        waiting: list[dict[str, Payload] | list[Payload]] = [whole]
        while waiting:
            branch: Payload = waiting.pop()
            for key, member in branch.items() if isinstance(branch, dict) else enumerate(branch):
                if type(member) in _NUMBERS:
                    continue
                if isinstance(member, str):
                    if len(member) >= LONG_CHARACTERS or member.startswith(MARK):
                        branch[key] = self._name_of(member)
                elif isinstance(member, dict):
                    branch[key] = copy = {**member}
                    waiting.append(copy)
                elif isinstance(member, _LISTS) and not _has_only_numbers(member):
                    branch[key] = elements = [*member]
                    waiting.append(elements)
        return whole[0]

    def _name_of(self, text: str) -> str:
        name = self._names.get(text)
        if name is None:
            name = self._names[text] = f"{MARK}{len(self.values)}"
            self.values.append(text)
        return name


_LISTS = (list, tuple)
_NUMBERS = frozenset({int, float, bool, type(None)})


def _has_only_numbers(elements: Sequence[Payload]) -> bool:
    """Return whether a list has only numbers, or only lists of numbers, such as ranges. Long runs have many."""
    kinds = {*map(type, elements)}
    if kinds == {list}:
        kinds = {*map(type, chain.from_iterable(elements))}
    return kinds <= _NUMBERS


# ── in a notebook ────────────────────────────────────────────────────────────────────────────────────────────────────


DEFAULT_HEIGHT = 640
"""The height of the frame in pixels."""


class Transcript:
    """A run that a notebook shows."""

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
    """Show a run in a notebook's cell, with everything that the viewer shows. `height` is in pixels.

    Raises TypeError if the value is not a run, and MissingExtraError if IPython is not installed.

    Examples:
        >>> display(load("trajectories/run.json"), height=640)
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


# ── the page ─────────────────────────────────────────────────────────────────────────────────────────────────────────


_DATA = '<script type="application/json" id="trace-recorder-data">{}</script>'
_POLICY = '<meta http-equiv="Content-Security-Policy" content="{}">'
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}
"""The characters of ASCII that could end the script element around the JSON, and their escapes in JSON."""


_json = make_json_writer(", ", ": ", allow_nan=False, ensure_ascii=True)


def ascii_json(value: Payload) -> str:
    """Return a value as JSON in ASCII, which can have any recorded text, even half of a surrogate pair.

    A file of another tool may have numbers that JSON does not know, such as NaN. Such a number becomes a text, such as
    "nan".
    """
    try:
        return _json(value)
    except ValueError:
        return json.dumps(_with_finite_numbers(value))


def _with_finite_numbers(value: Payload) -> Payload:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return map_inside(_with_finite_numbers, value)


@cache
def template() -> str:
    """Return the built page without data."""
    return files("trace_recorder.viewer").joinpath("page", "viewer.html").read_text(encoding="utf-8")


@cache
def content_security_policy(connect: str = "'none'") -> str:
    """Return the policy of the page. `connect` names the addresses to which the code of the page may connect."""
    script, style = _hash_of('<script type="module">', "</script>"), _hash_of("<style>", "</style>")
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src '{script}'",
            f"style-src '{style}'",
            "img-src data: blob:",
            f"connect-src {connect}",
            "form-action 'none'",
            "base-uri 'none'",
        ]
    )


def _hash_of(begin: str, end: str) -> str:
    """Return the hash of the text between two tags, in the form that a policy requires."""
    _, _, rest = template().partition(begin)
    digest = hashlib.sha256(rest.partition(end)[0].encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def page_with(data: Payload, policy: str | None = None) -> str:
    """Return the page with its data, and with the `policy` if no server sends the policy in a header."""
    page = template().replace(_POLICY.format(""), _POLICY.format(policy) if policy else "", 1)
    text = ascii_json(data)
    for character, escaped in _ESCAPES.items():
        text = text.replace(character, escaped)
    return page.replace(_DATA.format("null"), _DATA.format(text), 1)
