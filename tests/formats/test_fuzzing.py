"""Some damaged copies of the real files, and some copies with secrets. `scripts/fuzz-imports` tries more."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.formats.files import produced_files, real_files
from tests.formats.fuzzing import corpus, leaked, planted, search
from tests.formats.imported import import_file
from tests.secrets.corpus import Key, keys
from trace_recorder.formats.foreign_runs.run import Members, joined_id
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.recognition import masked_name


def test_damaged_copies_are_read_or_refused_and_secrets_are_masked() -> None:
    """A damaged copy of each third file causes no unexpected error. No key is in a journal, a document or a name."""
    real_files("*/**/*")
    files = corpus()
    assert [*search(iter(range(0, len(files), 3)), 2, files)] == []


def test_keys_are_put_into_every_copy() -> None:
    """Each key that the test searches for is in the file before the import."""
    some = [*keys(1)][:12]
    lines = b"".join(json.dumps({"text": "a", "more": ["b", {"c": "d"}]}).encode() + b"\n" for _ in range(200))
    with_keys = planted(lines, some, Random(1))
    assert all(key.longest.encode() in with_keys for key in some)
    assert len(with_keys.splitlines()) == 200


def test_a_secret_in_an_id_or_path_is_in_no_name_and_a_second_import_finds_the_run(tmp_path: Path) -> None:
    key = next(key for key in keys(1) if key.service == "GitHub, personal")
    (tmp_path / key.text).mkdir()
    path = tmp_path / key.text / f"{key.text}.jsonl"
    messages = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
    path.write_text(json.dumps({"messages": messages, "id": f"{key.text}"}) + "\n")

    assert leaked(path, [key], tmp_path / "out") == set()
    assert [done.done for done in import_file(Source(path), tmp_path / "out")] == ["unchanged"]


@pytest.mark.parametrize(
    "secret", ["machine h.example login me password fpD99aNimiE97w", "spring.password=V4nyVJ4ABkr2q3"]
)
def test_a_secret_before_the_suffix_of_a_file_s_name_is_masked(secret: str) -> None:
    assert secret.rpartition(" ")[2].rpartition("=")[2] not in masked_name(f"{secret}.json")
    assert masked_name(f"{secret}.json").endswith(".json")
    assert masked_name("session.2.jsonl") == "session.2.jsonl"


def test_a_secret_that_is_the_id_of_a_sub_agent_is_in_no_name(tmp_path: Path) -> None:
    """The sub-agent's run has an id of two parts, and a key is found in each part before they are joined."""
    key = next(key for key in keys(1) if key.text.startswith("pa-"))
    side = {"sessionId": "s1", "isSidechain": True, "agentId": key.text, "timestamp": "2026-01-01T00:00:00Z"}
    said = {"type": "user", "uuid": "u1", "parentUuid": None, "message": {"role": "user", "content": "q"}}
    path = tmp_path / "side.jsonl"
    path.write_text(json.dumps(side | said) + "\n")

    assert leaked(path, [key], tmp_path / "out") == set()
    [journal] = (tmp_path / "out").glob("*.jsonl")
    assert "s1-agent-[REDACTED:" in journal.read_text()


def _with_sub_agent(key: Key, path: Path) -> None:
    """Write a session of Claude Code with a sub-agent that was started by a call whose id is a key."""
    asked = {
        "type": "tool_use",
        "id": key.text,
        "name": "Task",
        "input": {"prompt": "Look.", "subagent_type": "Explore"},
    }
    result = {"type": "tool_result", "tool_use_id": key.text, "content": "Seen."}
    side = {"isSidechain": True, "agentId": "a1"}
    lines: list[Members] = [
        {"type": "user", "uuid": "u1", "message": {"role": "user", "content": "q"}},
        {"type": "assistant", "uuid": "u2", "message": {"role": "assistant", "id": "m1", "content": [asked]}},
        {"type": "user", "uuid": "u3", "message": {"role": "user", "content": "Look."}, **side},
        {"type": "assistant", "uuid": "u4", "message": {"role": "assistant", "id": "m2", "content": "Seen."}, **side},
        {"type": "user", "uuid": "u5", "message": {"role": "user", "content": [result]}},
    ]
    path.write_text("".join(json.dumps(line | {"sessionId": "s"}) + "\n" for line in lines))


def _with_model(key: Key, path: Path) -> None:
    """Write a chat of Copilot whose model is a provider's name, a slash, and a key that contains a slash."""
    [chat] = produced_files("copilot-chat/*1.json")
    path.write_text(chat.read_text().replace('"copilot/gpt-4.1"', json.dumps(f"copilot/gpt {key.text}")))


@pytest.mark.parametrize(
    ("write", "service"), [(_with_sub_agent, "LangSmith, service"), (_with_model, "Google, refresh token")]
)
def test_a_secret_in_a_joined_or_cut_id_is_masked(
    tmp_path: Path, write: Callable[[Key, Path], None], service: str
) -> None:
    key = next(key for key in keys(1) if key.service == service)
    path = tmp_path / "session.json"
    write(key, path)
    assert key.longest in path.read_text()
    assert leaked(path, [key], tmp_path / "out") == set()


def test_a_secret_after_a_hyphen_in_a_joined_id_is_masked() -> None:
    key = next(key for key in keys(1) if key.service == "LangSmith, service")
    assert joined_id("execution-of", key.text).startswith("execution-of-[REDACTED:")
