"""The self-contained page of a run, and the command that writes it."""

from __future__ import annotations

import base64
import hashlib
import html.parser
import json
import re
import subprocess
import sys
import zlib
from pathlib import Path

import httpx
from hypothesis import example, given
from hypothesis import strategies as st

from tests.cli.invoking import invoke
from tests.viewer.packed import unpacked
from tests.viewer.recorded import TASK, gave, growing, record
from trace_recorder import load
from trace_recorder.values.messages import Payload
from trace_recorder.viewer.one_file import LONG_CHARACTERS, one_file, packed_sections, run_data

HOSTILE = "</script><script>alert(1)</script><!--<script> \u2028\u2029 &lt; \x1b[2J \u202e ]]>"


class _Page(html.parser.HTMLParser):
    """A parser that collects the elements of a page that may contain code, and the page's policy."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None], str]] = []
        self.policy = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if tag in {"script", "style"}:
            self.found.append((tag, attributes, ""))
        if attributes.get("http-equiv") == "Content-Security-Policy":
            self.policy = attributes.get("content") or ""
        assert not any(name.startswith("on") or name in {"style", "src"} for name in attributes)

    def handle_data(self, data: str) -> None:
        if self.found and not self.found[-1][2]:
            tag, attributes, _ = self.found[-1]
            self.found[-1] = tag, attributes, data


def test_hostile_text_is_not_code(tmp_path: Path) -> None:
    """Recorded text neither ends the page's data element nor becomes code: the page has only the script it was built
    with.
    """
    path = record(tmp_path / "run.json", [[{"role": "system", "content": HOSTILE}, TASK]], metadata={HOSTILE: HOSTILE})
    page = _Page(one_file(load(path), HOSTILE))
    plain = _Page(one_file(load(record(tmp_path / "plain.json", growing(1)))))

    kinds = [(tag, attributes) for tag, attributes, _ in page.found]
    assert kinds == [(tag, attributes) for tag, attributes, _ in plain.found]
    assert [text for _, _, text in page.found[1:]][-1] == [text for _, _, text in plain.found[1:]][-1]
    [data] = [json.loads(text) for _, attributes, text in page.found if attributes.get("type") == "application/json"]
    run = unpacked(data["sections"])
    assert data["id"] == run["run"]["id"] == HOSTILE
    assert run["messages"][0]["parts"] == [{"type": "text", "text": HOSTILE}]
    assert run["run"]["run"]["metadata"] == {HOSTILE: HOSTILE}


def test_the_policy_allows_only_the_page_s_code(tmp_path: Path) -> None:
    """The page's policy has the hashes of its own script and style, and forbids connections."""
    page = _Page(one_file(load(record(tmp_path / "run.json", growing(1)))))
    code = {
        kind: base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for kind, attributes, text in page.found
        if attributes.get("type") != "application/json"
    }

    assert set(re.findall(r"sha256-([^']*)", page.policy)) == {code["script"], code["style"]}
    assert "connect-src 'none'" in page.policy
    assert "default-src 'none'" in page.policy


def test_the_file_has_the_whole_run(tmp_path: Path) -> None:
    """The page has each message, interaction, step, raw request and item of the run, uncut."""
    long = {"role": "user", "content": "x" * 100_000}
    run = load(record(tmp_path / "run.json", [[long, *prompt] for prompt in growing(3)]))
    data = run_data(run, "run.json")

    assert len(data["interactions"]) == len(data["raw"]) == len(data["run"]["interactions"]) == 3
    assert data["messages"][0]["parts"] == [{"type": "text", "text": "x" * 100_000}]
    assert '"cut"' not in json.dumps(data)
    assert len(data["items"]) == data["run"]["counts"]["items"]


def test_a_repeated_tool_result_is_stored_once(tmp_path: Path) -> None:
    """A tool result that is in a message, a step and a raw request is in the page once, compressed."""
    output = "".join(f"{number} {number * 7919 % 1_000_003}\n" for number in range(60_000))
    plain = one_file(load(record(tmp_path / "plain.json", growing(3))))
    [task, *others] = growing(3)
    prompts = [task, *([*prompt[:3], gave(1, output), *prompt[4:]] for prompt in others)]
    page = one_file(load(record(tmp_path / "run.json", prompts)))

    compressed = len(base64.b64encode(zlib.compress(output.encode())))
    assert len(page) - len(plain) < 1.3 * compressed < len(output)


def test_the_command_writes_the_file(tmp_path: Path) -> None:
    """`view FILE -o` writes the page, and prints its path and size."""
    path = record(tmp_path / "run.json", growing(1))
    done = invoke("view", path, "-o", tmp_path / "run.html")

    assert (done.exit_code, done.output) == (0, f"wrote {tmp_path / 'run.html'} (0.4 MB)\n")
    assert (tmp_path / "run.html").read_text().startswith("<!doctype html>")


def test_the_command_writes_two_runs_side_by_side(tmp_path: Path) -> None:
    """`view` with two runs writes a page with both and their first difference.

    A directory stands for its newest run.
    """
    for name, turns in (("a", 2), ("b", 3)):
        record(tmp_path / name / "run.json", growing(turns))
    places = [str(tmp_path / "a"), str(tmp_path / "b" / "run.json")]
    done = invoke("view", *places, "-o", tmp_path / "both.html")

    [data] = [json.loads(text) for _, _, text in _Page((tmp_path / "both.html").read_text()).found if text[:1] == "{"]
    assert done.exit_code == 0
    assert (data["kind"], data["a"]["id"], data["b"]["id"]) == ("comparison", "1: run.json", "2: run.json")
    assert unpacked(data["sections"])["compare"]["parts_at"] is not None
    assert len(unpacked(data["b"]["sections"])["interactions"]) == 3
    assert invoke("view", *places).exit_code == 2


def test_what_cannot_be_written_is_reported(tmp_path: Path) -> None:
    """`view` reports a directory without runs, a missing file, and an unwritable output in one sentence each."""
    path = record(tmp_path / "run.json", growing(1))
    (tmp_path / "empty").mkdir()
    calls = [
        (tmp_path / "empty", tmp_path / "run.html"),
        (tmp_path / "none.json", tmp_path / "run.html"),
        (path, tmp_path / "none" / "run.html"),
    ]
    for place, output in calls:
        done = invoke("view", place, "-o", output)
        assert (done.exit_code, done.output.count("\n")) == (1, 1)
    assert invoke("view", tmp_path / "none").exit_code == 1


def test_the_command_serves_until_it_is_interrupted(tmp_path: Path) -> None:
    """The address that `view` prints opens the page, and Ctrl-C ends the command without a traceback."""
    import signal

    record(tmp_path / "run.json", growing(1))
    command = [sys.executable, "-m", "trace_recorder", "view", str(tmp_path), "--port", "0", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as served:
        assert served.stdout is not None
        address = served.stdout.readline().split()[-1]
        with httpx.Client(trust_env=False, follow_redirects=True, timeout=60) as client:
            page = client.get(address)
            listed = client.get(str(page.url.join("/api/runs"))).json()
        served.send_signal(signal.SIGINT)
        _, errors = served.communicate(timeout=60)

    assert page.text.startswith("<!doctype html>")
    assert [run["id"] for run in listed["runs"]] == ["run.json"]
    assert (served.returncode, errors) == (0, "")


def test_a_port_in_use_is_reported(tmp_path: Path) -> None:
    """If the requested port is in use, `view` reports it and does not choose another port."""
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = invoke("view", tmp_path, "--port", port, "--no-browser")

    assert done.exit_code == 1
    assert f"port {port} cannot be used" in done.output


TEXTS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(["", "\u0001", "\u00010", "\u0001x", "x" * LONG_CHARACTERS, "</script>" * 20, "half \ud83d"]),
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(TEXTS, inside, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["run", "steps", "raw"]), VALUES))
@example({"run": {"__proto__": "\u00010", "constructor": ["\u0001" * 200]}})
def test_packing_loses_nothing(sections: dict[str, Payload]) -> None:
    """Any recorded text is the same after packing and unpacking, even a text that looks like a reference to a text."""
    assert unpacked(packed_sections(sections)) == sections


def test_packing_does_not_change_the_run() -> None:
    """Packing replaces long texts in a copy, and leaves the values of the run unchanged."""
    value = {"a": ["x" * LONG_CHARACTERS, {"b": "y" * LONG_CHARACTERS}]}
    before = json.dumps(value)
    packed_sections({"run": value})

    assert json.dumps(value) == before
