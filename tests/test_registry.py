"""Records that are registered by name, by the package or a program, work in every command."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import httpx
import pytest

from tests.agents import Place
from tests.cli.invoking import invoke
from tests.outside_records import ECHO, NOTES, PAIRS, registered
from tests.processes import ROOT
from tests.provider import Server, plain, serving
from trace_recorder import load
from trace_recorder.cli.app import COMMANDS
from trace_recorder.dialects.dialect import Dialect, dialect_of
from trace_recorder.dialects.endpoints import recognise
from trace_recorder.formats.format import FormatReader
from trace_recorder.registry import DIALECTS, EXPORT_FORMATS, IMPORT_FORMATS
from trace_recorder.values.token_counts import CACHE_APART, counting_of

AGENT = """
    import os, sys
    import httpx
    from tests.outside_records import register

    register()
    turns = []
    for said in ("Hi", "There"):
        turns.append({"who": "me", "text": said})
        body = {"model": "e1", "system": "Be kind.", "turns": turns}
        answer = httpx.post(os.environ["OPENAI_BASE_URL"] + "/echo", json=body).json()
        turns.append({"who": "echo", "text": answer["text"]})
    print(turns[-1]["text"])
"""
ANSWER = {"text": "Hello", "stop": "end", "tokens": {"in": 3, "cached": 2, "out": 1}}
"""Five input tokens, because the dialect's input excludes cached tokens."""


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(plain(ANSWER)) as server:
        yield server


@pytest.fixture
def place(tmp_path: Path, server: Server, capfd: pytest.CaptureFixture[str]) -> Iterator[Place]:
    """Return a directory with notes.jsonl, and with run.json, the run of an agent with two calls."""
    place = Place(tmp_path, server, capfd)
    (tmp_path / "agent.py").write_text(textwrap.dedent(AGENT))
    note = {"asked": "Hi", "heard": "Hello", "tokens": {"input_tokens": 3, "cache_read_input_tokens": 2}}
    (tmp_path / "notes.jsonl").write_text(json.dumps(note) + "\n")
    (tmp_path / "reward.py").write_text("def good(run):\n    return 1.0\n")
    with registered():
        place.record("--", sys.executable, "agent.py")
        shutil.copy(tmp_path / "run.json", tmp_path / "copy.json")
        yield place


def agent() -> list[str]:
    return ["--", sys.executable, "agent.py"]


def test_a_recorded_call_is_read_by_its_dialect(place: Place) -> None:
    """A call in a registered dialect is recorded by `run`, and its messages, texts and tokens are read."""
    first, second = load(place.path / "run.json").llm_interactions

    assert (first.api, first.provider, first.model, first.response.content) == ("echo-chat", "echo", "e1", "Hello")
    assert [message.content for message in second.input_messages] == ["Be kind.", "Hi", "Hello", "There"]
    assert load(place.path / "run.json").metrics["total_input_tokens"] == 10


READING = {
    "list": (("run.json",), " 12 "),
    "show": (("run.json",), "There"),
    "tail": (("run.json",), "Hello"),
    "stats": (("run.json",), "echo/e1"),
    "diff": (("run.json", "run.json"), ""),
    "check": (("run.json", "--against", "copy.json"), "copy.json: agrees with run.json"),
    "grep": (("There", "run.json"), "There"),
    "sql": (("select content from messages", "run.json"), "There"),
    "skill": ((), "trace-recorder show"),
    "find": (("There", "run.json"), "run.json"),
    "index": ((".",), "in the index"),
    "validate": (("run.json",), "run.json"),
    "recover": (("run.json",), "run.json"),
    "prune": (("run.json", "--where", "There"), "run.json"),
    "score": (("run.json", "--reward", "reward.py:good"), "good"),
    "redact": (("run.json", "--pattern", "There"), "run.json: 1 place"),
    "view": (("run.json", "-o", "page.html"), "wrote page.html"),
    "export": (("run.json", "-f", "echo-pairs"), '{"question": "There", "answer": "Hello"}'),
    "import": (("notes.jsonl", "-o", "imported"), "notes.jsonl"),
    "share": (("run.json", "-o", "run.zip", "--content", "none", "--yes"), "wrote run.zip"),
    "replay": (("run.json", *agent()), "Hello"),
    "fork": (("run.json", "--at", "2", "--system", "Be brief.", *agent()), "Hello"),
    "proxy": (("--upstream", "openai={url}", *agent()), "Hello"),
}
"""The arguments of each command, and a part of its expected output."""


def test_every_command_is_tried() -> None:
    assert READING.keys() | {"run", "serve", "mcp", "mcp-tap"} == COMMANDS.keys()


@pytest.mark.parametrize("command", READING)
def test_a_command_works_with_registered_records(
    command: str, place: Place, server: Server, capfd: pytest.CaptureFixture[str]
) -> None:
    arguments, expected = READING[command]
    words = [command, *(word.replace("{url}", server.url) for word in arguments)]
    with chdir(place.path):
        result = invoke(*words, environment=place.environment)

    printed = result.output + "".join(capfd.readouterr())
    assert (result.exit_code, expected in printed) == (0, True), printed


def test_a_fork_sends_a_changed_system_prompt(place: Place, server: Server) -> None:
    """A fork replaces the system prompt where the registered dialect has it."""
    place.command("fork", "run.json", "--at", "2", "--system", "Be brief.", *agent())

    assert json.loads(server.requests[-1][2])["system"] == "Be brief."


def test_other_views_use_the_registered_dialect(place: Place) -> None:
    """OTLP spans of a registered dialect name its operation, and have the instructions apart from the messages."""
    place.command("export", "run.json", "-f", "otlp", "-o", "spans")
    spans = (place.path / "spans" / "run.jsonl").read_text()

    assert '"text_completion"' in spans
    assert "gen_ai.system_instructions" in spans


def test_an_imported_run_is_counted_by_its_format(place: Place) -> None:
    """The tokens of a run in a registered import format are counted by the format's rule for cached tokens."""
    place.command("import", "notes.jsonl", "-o", "imported")
    (path,) = (place.path / "imported").glob("*.json")

    assert (load(path).llm_interactions[0].api, load(path).metrics["total_input_tokens"]) == ("echo-notes", 5)


def test_a_server_answers_in_the_dialect(place: Place) -> None:
    """`serve` gives a recorded answer, and for any other request an error in the registered dialect's form."""
    code = "from tests.outside_records import register; register(); from trace_recorder.cli import main; main()"
    command = [sys.executable, "-c", code, "serve", "run.json"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, cwd=place.path, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            url = process.stdout.readline().rstrip().removeprefix("OPENAI_BASE_URL=") + "/echo"
            body = {"model": "e1", "system": "Be kind.", "turns": [{"who": "me", "text": "Hi"}]}
            answered, refused = httpx.post(url, json=body).json(), httpx.post(url, json={"turns": []}).json()
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)

    assert (answered, [*refused]) == (ANSWER, ["echo"])


def test_a_name_can_be_registered_only_once() -> None:
    """A second record of the same name is refused, also if the first is the package's."""
    with registered(), pytest.raises(ValueError, match="'echo-chat' is registered already"):
        DIALECTS.register(ECHO)
    with pytest.raises(ValueError, match="'openai-chat' is registered already"):
        DIALECTS.register(dataclasses.replace(ECHO, name="openai-chat"))


def test_cached_answers_are_forgotten_at_a_registration() -> None:
    """A registered URL, dialect and rule for tokens are known at once, and unknown after the registration ends."""

    def known() -> list[object]:
        return [recognise("POST", "localhost", "/v1/echo").call, dialect_of("echo-chat"), counting_of("echo-notes")]

    before = known()
    with registered():
        within = known()

    assert (before[:2], known() == before) == ([None, None], True)
    assert (within[1], within[2]) == (ECHO, CACHE_APART)
    assert within[0] is not None


def test_a_record_must_have_every_member() -> None:
    """A dialect or import format without one of its members is refused."""
    given = {field.name: getattr(ECHO, field.name) for field in dataclasses.fields(Dialect)}
    for name in given:
        with pytest.raises(TypeError, match=name):
            Dialect(**{key: value for key, value in given.items() if key != name})
    with pytest.raises(TypeError, match="counting"):
        FormatReader(recognizes=NOTES.reader.recognizes, read=NOTES.reader.read)  # type: ignore[call-arg]


@pytest.mark.parametrize("records", [DIALECTS, IMPORT_FORMATS, EXPORT_FORMATS], ids=["dialects", "imports", "exports"])
def test_each_row_names_the_record_of_its_module(records) -> None:
    """A row has the name of its record. A row for `export` may have a name of its own."""
    known = [(records.record(name), name) for name in records]

    assert [name for record, name in known if name not in {record.name, getattr(record, "export_name", None)}] == []
    assert PAIRS.name not in records


def test_a_format_that_is_read_and_written_is_one_record() -> None:
    """A name in both tables is the name of one record."""
    both = IMPORT_FORMATS.keys() & EXPORT_FORMATS.keys()

    assert both == {"atif", "hierarchy", "invariant", "otlp", "session-traces", "verifiers"}
    assert [name for name in both if IMPORT_FORMATS.record(name) is not EXPORT_FORMATS.record(name)] == []


def test_the_records_of_a_folder_are_in_one_file() -> None:
    """A folder of `formats/` has its records in `format.py`."""
    formats = ROOT / "trace_recorder" / "formats"
    inside = [path for path in formats.rglob("*.py") if path.parent != formats and path.name != "format.py"]

    assert [path for path in inside if re.search(r"^\w+ = Format\(", path.read_text("utf-8"), re.MULTILINE)] == []
