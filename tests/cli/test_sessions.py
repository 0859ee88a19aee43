"""Runs that belong together state a session, and every place that shows or selects runs has it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import pytest

from tests.catalog.many_runs import settle
from tests.chat_calls import CHAT, Wire, asked, call, said
from tests.cli.invoking import invoke
from tests.data.frozen_runs import DIRECTORY as FROZEN
from tests.journals import records_of
from tests.provider import Server
from tests.viewer.serving import serving
from trace_recorder import TrajectoryRecorder, fork, load, replay, to_dataframe, validate
from trace_recorder.formats.spans.writing.span_maker import Conventions
from trace_recorder.reading.document import from_document
from trace_recorder.views import to_spans

SESSION = 'Ada\'s "chat" 7'
FOREIGN = FROZEN.parent / "foreign"
_NAMES = ("turn1", "turn2", "replay", "fork", "other")
_CHILD = """
import sys
from trace_recorder import TrajectoryRecorder
with TrajectoryRecorder(sys.argv[1], task="a child"):
    pass
"""


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two turns of a chat, a replay of the first turn, a fork of the second, and a run between them."""
    directory = tmp_path_factory.mktemp("chat")
    for name, session in (("turn1", SESSION), ("other", None), ("turn2", SESSION)):
        with TrajectoryRecorder(directory / f"{name}.json", task=name, session=session) as recorder:
            call(recorder, asked("go"), said("gone"))
    with (
        replay(directory / "turn1.json") as repeated,
        TrajectoryRecorder(directory / "replay.json", session=SESSION) as recorder,
    ):
        call(repeated, asked("go"), said("never sent"))
    forked = TrajectoryRecorder(directory / "fork.json")
    with fork(directory / "turn2.json", at="llm_1", recorder=forked) as branch:
        call(branch, asked("go"), said("gone again"))
    return directory


def test_a_run_and_its_document_state_the_session(chat: Path) -> None:
    """A run without a session, such as a fork that states none, has no such member."""
    documents = {name: json.loads((chat / f"{name}.json").read_bytes()) for name in _NAMES}
    runs = {name: load(chat / f"{name}.jsonl") for name in _NAMES}

    sessions = dict.fromkeys(("turn1", "turn2", "replay"), SESSION) | dict.fromkeys(("fork", "other"))
    assert {name: run.session for name, run in runs.items()} == sessions
    assert {name: document.get("session") for name, document in documents.items()} == sessions
    assert from_document(documents["turn1"], "turn1").session == SESSION
    assert "session" not in documents["other"]
    assert "session" not in records_of(chat / "other.json")[0].data
    assert [validate(chat / f"{name}.json").findings for name in _NAMES] == [()] * len(_NAMES)


def test_list_draws_a_session_as_a_tree(chat: Path) -> None:
    """A replay and a fork are below their origin; the other runs of a session are below its first run."""
    lines = invoke("list", chat).output.splitlines()
    rows = json.loads(invoke("list", chat, "--json").output)["trajectories"]

    names = [line.split("  2")[0].rstrip() for line in lines[1:]]
    assert names == ["turn1.json", "└ turn2.json", "  └ fork.json", "└ replay.json", "other.json"]
    assert [row["file"] for row in rows if row["session"] == SESSION] == ["turn1.json", "turn2.json", "replay.json"]
    assert [SESSION in line for line in lines[1:]] == [True, True, False, True, False]


def test_an_index_gives_the_same_rows(chat: Path, tmp_path: Path) -> None:
    """`session:` is a term of the query language. It selects the same runs, and `list` has equal rows, by an index."""
    settle(chat)
    index = tmp_path / "index"
    query = "session:" + '"' + SESSION.replace('"', '""') + '"'
    commands = [("find", query, chat, "--json"), ("list", chat, "--json"), ("list", chat)]
    outputs = [invoke(*command).output for command in commands]
    invoke("index", chat, "--index", index)

    assert [invoke(*command, "--index", index).output for command in commands] == outputs
    assert [row["file"] for row in json.loads(outputs[0])] == ["turn1.json", "turn2.json", "replay.json"]


def test_show_and_the_table_of_runs_have_the_session(chat: Path) -> None:
    header = invoke("show", chat / "turn1.json").output.splitlines()
    [row] = to_dataframe(load(chat / "turn1.json"), of="runs", library="polars").to_dicts()

    assert [line.split(maxsplit=1)[1] for line in header if line.split()[:1] == ["session"]] == [SESSION]
    assert row["session"] == SESSION


def test_the_viewer_draws_a_session_as_a_tree(chat: Path) -> None:
    """In the order of time the rows are a tree, and in any other order they are flat. A search finds the session."""
    with serving(chat) as viewer:
        tree = viewer.get("/api/runs").json()["runs"]
        flat = viewer.get("/api/runs", params={"sort": "task"}).json()["runs"]
        search = viewer.get("/api/find", params={"query": f'session:"{SESSION.replace(chr(34), chr(34) * 2)}"'}).json()
        head = viewer.get("/api/runs/turn1.json").json()["run"]

    assert [(row["id"], row["depth"]) for row in tree] == [
        ("turn2.json", 0),
        ("fork.json", 1),
        ("turn1.json", 1),
        ("replay.json", 2),
        ("other.json", 0),
    ]
    assert {row["depth"] for row in flat} == {0}
    assert search["runs"] == ["replay.json", "turn1.json", "turn2.json"]
    assert head["session"] == SESSION


@pytest.mark.parametrize("words", ["atif", "otlp", "otlp --form openinference", "invariant"])
@pytest.mark.parametrize("name", ["turn1", "other"])
def test_a_format_carries_the_session(chat: Path, words: str, name: str, tmp_path: Path) -> None:
    """A run that is exported and imported again has the same session, or none."""
    path = tmp_path / "exported.json"
    assert invoke("export", chat / f"{name}.json", "--output", path, "--format", *words.split()).exit_code == 0
    assert load(path).session == load(chat / f"{name}.json").session


@pytest.mark.parametrize(
    ("form", "attribute"),
    [("genai", "gen_ai.conversation.id"), ("openinference", "session.id"), ("langfuse", "session.id")],
)
def test_spans_name_the_session_as_their_conventions_do(chat: Path, form: Conventions, attribute: str) -> None:
    """The conversation of a run without a session is the run itself."""
    runs = [load(chat / f"{name}.json") for name in ("turn1", "other")]
    roots = [next(iter(to_spans(run, form))) for run in runs]
    assert [root.attributes[attribute] for root in roots] == [SESSION, runs[1].trajectory_id]


@pytest.mark.parametrize(
    ("file", "session"),
    [("langfuse/trace.json", "s"), ("claude-code/session.jsonl", "s-1")],
)
def test_the_session_of_another_tool_is_imported(file: str, session: str) -> None:
    assert load(FOREIGN / file).session == session


def test_other_processes_and_forks_are_in_the_session_of_the_open_run(tmp_path: Path) -> None:
    """A started program, a forked child, and a program that gets `child_environment` are in the run's session."""
    command = [sys.executable, "-c", _CHILD]
    with TrajectoryRecorder(tmp_path / "run.json", session="s") as recorder:
        subprocess.run([*command, tmp_path / "started.json"], check=True)
        child = os.fork()
        if child == 0:
            recorder.annotate("a", 1)
            os._exit(0)
        os.waitpid(child, 0)
        with TrajectoryRecorder(tmp_path / "inner.json"):
            subprocess.run([*command, tmp_path / "given.json"], env=recorder.child_environment(), check=True)
            subprocess.run([*command, tmp_path / "unrelated.json"], check=True)
    subprocess.run([*command, tmp_path / "after.json"], check=True)

    sessions = {path.stem: load(path).session for path in tmp_path.glob("*.json")}
    [forked] = [sessions.pop(name) for name in [*sessions] if name.startswith("run.")]
    assert (forked, sessions) == (
        "s",
        {"run": "s", "started": "s", "given": "s", "inner": None, "unrelated": None, "after": None},
    )


def test_the_environment_states_the_session_of_runs_that_state_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The recorder's own session is preferred, and the session of `start` to that of the recorder."""
    monkeypatch.setenv("TRACE_RECORDER_SESSION", "of the environment")
    recorders = {
        "none": TrajectoryRecorder(tmp_path / "none.json"),
        "own": TrajectoryRecorder(tmp_path / "own.json", session="own"),
        "turn": TrajectoryRecorder(tmp_path / "turn.json", session="own"),
    }
    for name, recorder in recorders.items():
        recorder.start(session="turn" if name == "turn" else None)
        recorder.finalize()

    sessions = {name: load(tmp_path / f"{name}.json").session for name in recorders}
    assert sessions == {"none": "of the environment", "own": "own", "turn": "turn"}
    assert os.environ["TRACE_RECORDER_SESSION"] == "of the environment"


def test_threads_with_recorders_of_their_own_do_not_mix_sessions(tmp_path: Path) -> None:
    """Twenty chats at once each have their own session."""
    start = threading.Barrier(20)

    def chat(number: int) -> None:
        start.wait()
        with TrajectoryRecorder(tmp_path / f"{number}.json", session=f"chat {number}") as recorder:
            recorder.annotate("number", number)

    threads = [threading.Thread(target=chat, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    sessions = {path.stem: load(path).session for path in tmp_path.glob("*.json")}
    assert sessions == {str(number): f"chat {number}" for number in range(20)}
    assert "TRACE_RECORDER_SESSION" not in os.environ


def test_a_session_is_masked_as_other_texts_of_the_user(tmp_path: Path) -> None:
    """The user's redactor sees the session. A key in it is masked, also if a later request shows that it is a key."""
    key = "kq7-very-own-key-of-this-user-0042"
    with TrajectoryRecorder(tmp_path / "a.json", session="ada@example.com", redact=str.upper) as recorder:
        pass
    with TrajectoryRecorder(tmp_path / "b.json", session=f"chat {key}") as recorder:
        with httpx.Client(transport=Wire(said("gone")), trust_env=False) as client:
            recorder.wrap(client).post(CHAT, json=asked("go"), headers={"authorization": f"Bearer {key}"})

    assert load(tmp_path / "a.json").session == "ADA@EXAMPLE.COM"
    assert key not in (tmp_path / "b.json").read_text()


@pytest.mark.parametrize(
    ("session", "error"),
    [
        (7, "session is 7, and must be a str"),
        ("x" * 1001, "at most 1000"),
        ("a\0b", "printable"),
        ("\ud800", "printable"),
    ],
)
def test_a_session_that_no_child_could_get_is_refused(session: object, error: str, tmp_path: Path) -> None:
    recorder = TrajectoryRecorder(tmp_path / "run.json")
    for use in (lambda: TrajectoryRecorder(session=session), lambda: recorder.start(session=session)):
        with pytest.raises((TypeError, ValueError), match=error):
            use()
    assert [*tmp_path.iterdir()] == []


def test_run_states_the_session_of_a_program_and_of_its_own_recorders(server: Server, tmp_path: Path) -> None:
    """`run --session` is for the command's recorder and for a recorder of the program without a session."""
    (tmp_path / "agent.py").write_text(
        "import httpx, sys\n"
        "from trace_recorder import TrajectoryRecorder\n"
        'httpx.post(sys.argv[1] + "/v1/chat/completions", json={"model": "m", "messages": []})\n'
        'with TrajectoryRecorder("own.json"), TrajectoryRecorder("other.json", session="its own"): pass\n'
    )
    program = [sys.executable, "-c", "from trace_recorder.cli import main; main()"]
    options = ["--session", "nightly", "--directory", "runs"]
    command = [*program, "run", *options, "--", sys.executable, "agent.py", server.url]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)

    [recorded] = (tmp_path / "runs").glob("*.json")
    names = [recorded, tmp_path / "own.json", tmp_path / "other.json"]
    assert (done.returncode, [load(name).session for name in names]) == (0, ["nightly", "nightly", "its own"])


def test_files_without_a_session_are_read_as_before(tmp_path: Path) -> None:
    """The files of earlier versions state no session, and the list of them has no such column."""
    for path in FROZEN.rglob("*.json*"):
        if path.parent.name != "read" and path.stem != "every member":  # this one is not of an earlier version
            shutil.copy(path, tmp_path / f"{path.parent.name}-{path.name}")
    listed = invoke("list", tmp_path, "--json")
    rows = json.loads(listed.output)["trajectories"]

    assert rows
    assert {row["session"] for row in rows} == {None}
    assert "session" not in invoke("list", tmp_path).output.splitlines()[0]
