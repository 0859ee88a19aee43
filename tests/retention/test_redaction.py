"""Texts are removed from every place of a run, nothing else changes, and the files stay whole."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.chat_calls import asked, call, rich_run, said
from tests.formats.corpus_runs import corpus_runs
from tests.formats.runs import RUNS
from tests.journals import RawRecord, journal_of, read_raw, records_of
from tests.processes import ROOT
from tests.retention.planting import MASK, TEXT, plant
from trace_recorder import (
    RecorderStateError,
    RedactionRuleError,
    TrajectoryFormatError,
    TrajectoryRecorder,
    load,
    redact,
    validate,
)
from trace_recorder.recording.amend import append_rewards, rebuild_document
from trace_recorder.storage.paths import temporary_path
from trace_recorder.values.messages import Payload

FROZEN = sorted((ROOT / "tests/data/frozen/journals").glob("*.jsonl"))

RECORDED = ("responses", "gemini", "sub_agents", "poisoned")
"""Runs of agents, among them the SDKs' streams, with sub-agents, and with values that JSON lacks."""


def planted(journal: Path, directory: Path) -> tuple[Path, bytes]:
    """Return a run with texts planted everywhere, and the journal that its redaction must have."""
    plant(journal, directory / "masked.jsonl", MASK)
    plant(journal, directory / "planted" / "run.jsonl", TEXT)
    rebuild_document(directory / "planted" / "run.jsonl")
    return directory / "planted" / "run.json", (directory / "masked.jsonl").read_bytes()


def faults(run: Path, expected: bytes) -> Iterator[str]:
    """Redact a planted run, and yield what is wrong with it then."""
    redacted = redact(run, text=TEXT)
    if redacted.leftovers:
        yield f"left: {redacted.leftovers}"
    *lines, last = run.with_suffix(".jsonl").read_bytes().splitlines(keepends=True)
    if b"".join(lines) != expected:
        yield "another text has changed"
    removal = json.loads(last)
    if (removal["kind"], removal["data"]["rules"], removal["data"]["places"]) != ("removal", ["text"], redacted.count):
        yield f"the last record is {removal}"
    if load(run).to_document() != load(run.with_suffix(".jsonl")).to_document():
        yield "the document and the journal differ"
    if redact(run, text=TEXT).count:
        yield "a second redaction finds something"


@pytest.mark.parametrize("journal", FROZEN, ids=lambda path: path.stem)
def test_planted_texts_go_and_nothing_else(journal: Path, tmp_path: Path) -> None:
    """In runs with every kind of record, imported runs among them, each planted text becomes a mask, and no more."""
    assert [*faults(*planted(journal, tmp_path))] == []


def test_planted_texts_go_from_runs_of_agents(tmp_path: Path) -> None:
    """The same, in recorded runs of every form, and in real exchanges if they are installed."""
    recorded = [RUNS[name](_made(tmp_path / name)) for name in RECORDED]
    runs = [rich_run(tmp_path / "rich.json"), *recorded, *corpus_runs(tmp_path / "corpus", 40)]
    with_journal = [run.with_suffix(".jsonl") for run in runs if run.with_suffix(".jsonl").is_file()]
    ended = [journal for journal in with_journal if b'"kind":"finalize"' in journal.read_bytes()]

    wrong = {journal: [*faults(*planted(journal, tmp_path / str(at)))] for at, journal in enumerate(ended)}

    assert {journal: found for journal, found in wrong.items() if found} == {}
    assert len(ended) > len(RECORDED)


def _made(directory: Path) -> Path:
    directory.mkdir()
    return directory


@pytest.mark.parametrize("name", ["answers", "manual", "imported claude-code", "frames", "media"])
def test_a_redacted_run_is_valid(name: str, tmp_path: Path) -> None:
    """`validate` finds no error: streams still give the assembled responses, and items are found."""
    plant(ROOT / f"tests/data/frozen/journals/{name}.jsonl", tmp_path / "run.jsonl", TEXT, ["plain"])
    before = {finding.what for finding in validate(tmp_path / "run.jsonl").findings}

    redact(tmp_path / "run.jsonl", text=TEXT)

    assert {finding.what for finding in validate(tmp_path / "run.jsonl").findings} - before == set()


def test_a_dry_run_changes_no_byte(tmp_path: Path) -> None:
    """It counts what a redaction changes."""
    run = rich_run(tmp_path / "run.json")
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in tmp_path.iterdir()}

    dry = redact(run, text="hello", dry_run=True)

    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in tmp_path.iterdir()} == before
    assert (dry.is_dry, dry.places) == (True, redact(run, text="hello").places)


def test_the_loaded_run_says_that_texts_were_removed(tmp_path: Path) -> None:
    """The trajectory and its document have when, by which rules, and how many places."""

    def shouting(text: str) -> str:
        return text.replace("mended", "MENDED")

    run = rich_run(tmp_path / "run.json")
    count = redact(run, text="hello", pattern="a\\.p.", function=shouting).count

    [removal] = load(run).removals
    name = f"function {__name__}:{shouting.__qualname__}"
    assert (removal.rules, removal.places) == (("text", "pattern", name), count)
    assert json.loads(run.read_bytes())["removals"] == [removal.to_document()]
    assert (load(run).final_result, load(run).llm_interactions[0].input_messages[0].content) == ("MENDED", MASK)


def test_a_run_that_is_being_written_is_refused(tmp_path: Path) -> None:
    """Another process that writes the run has its file open. Nothing changes."""
    code = """
        import sys
        from trace_recorder import TrajectoryRecorder
        recorder = TrajectoryRecorder(sys.argv[1], task="by Ann Lee")
        recorder.start()
        print("started", flush=True)
        sys.stdin.read()
    """
    command = [sys.executable, "-c", textwrap.dedent(code), tmp_path / "run.json"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "started\n"
        before = (tmp_path / "run.jsonl").read_bytes()
        with pytest.raises(RecorderStateError, match="is still being written"):
            redact(tmp_path / "run.json", text="Ann Lee")
        assert (tmp_path / "run.jsonl").read_bytes() == before
    redact(tmp_path / "run.json", text="Ann Lee")
    assert load(tmp_path / "run.json").task == f"by {MASK}"


@pytest.mark.parametrize(("host", "refused"), [(socket.gethostname(), False), ("elsewhere", True), (None, False)])
def test_a_run_without_an_end_is_redacted_on_its_host(host: str | None, refused: bool, tmp_path: Path) -> None:
    """On another host the run may still be open. An imported run has no host, and no process writes it."""
    start: Payload = {"schema": "trace-recorder/journal", "version": 1, "trajectory_id": "t", "provider": None}
    start |= {
        "model": None,
        "max_steps": None,
        "task": "by Ann Lee",
        "metadata": {},
        **({"host": host} if host else {}),
    }
    (tmp_path / "run.jsonl").write_bytes(journal_of(("start", start)))

    if refused:
        with pytest.raises(RecorderStateError, match="on another host"):
            redact(tmp_path / "run.jsonl", text="Ann Lee")
    else:
        assert redact(tmp_path / "run.jsonl", text="Ann Lee").count == 1


def test_files_of_others_are_refused(tmp_path: Path) -> None:
    """A file of another tool stays. The sentence says to import it."""
    other = tmp_path / "other.json"
    other.write_text(json.dumps({"messages": ["Ann Lee"]}))

    with pytest.raises(TrajectoryFormatError, match="Import it"):
        redact(other, text="Ann Lee")
    assert other.read_text() == json.dumps({"messages": ["Ann Lee"]})


def test_a_document_without_a_journal_is_edited(tmp_path: Path) -> None:
    """Its texts go, and its ids, times and numbers stay."""
    run = rich_run(tmp_path / "run.json")
    run.with_suffix(".jsonl").unlink()
    before = json.loads(run.read_bytes())

    redacted = redact(run, text="hello")

    after = json.loads(run.read_bytes())
    expected = json.loads(json.dumps(before).replace("hello", MASK))
    assert (redacted.leftovers, after.pop("removals")[0]["places"]) == ((), redacted.count)
    assert after == expected
    assert load(run).removals[0].rules == ("text",)


def test_a_document_that_has_more_than_its_journal_keeps_it(tmp_path: Path) -> None:
    """A journal lost its last records, and the document has them: the document is edited, and not made again."""
    run = rich_run(tmp_path / "run.json")
    journal = run.with_suffix(".jsonl")
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:-5]))
    redact(run, text="hello", pattern="mended")

    document = json.loads(run.read_bytes())
    assert (document["final_result"], document["rewards"][0]["name"]) == (MASK, "tests")
    assert "hello" not in run.read_text()


def test_an_interrupted_redaction_is_completed(tmp_path: Path) -> None:
    """If the journal is new and the document is old, the next redaction makes the document, by whatever rule."""
    run = rich_run(tmp_path / "run.json")
    old = run.read_bytes()
    redact(run, path="llm_1.prompt[0]")
    whole = run.read_bytes()
    for rule in ({"path": "llm_1.prompt[0]"}, {"text": "another text"}):
        run.write_bytes(old)
        redact(run, **rule)
        assert run.read_bytes() == whole


def test_temporary_files_of_ended_processes_go(tmp_path: Path) -> None:
    """A process that was killed may have left a part of a file."""
    run = rich_run(tmp_path / "run.json")
    own = temporary_path(run)
    temporaries = [own, own.with_name(own.name.replace(f".{os.getpid()}.", ".999999999."))]
    for path in temporaries:
        path.write_text("hello")

    redact(run, text="hello")

    assert [path for path in temporaries if path.exists()] == []


def test_records_can_be_added_to_a_redacted_run(tmp_path: Path) -> None:
    """A reward that is added later follows the removal, and a second removal is listed too."""
    run = rich_run(tmp_path / "run.json")
    redact(run, text="hello")
    append_rewards(run, [{"name": "late", "value": 1.0, "explanation": "a.py is fine"}])
    redact(run, text="a.py")

    assert [one.kind for one in records_of(run)][-3:] == ["removal", "reward", "removal"]
    loaded = load(run)
    assert (len(loaded.removals), loaded.rewards[-1].explanation, validate(run).ok) == (2, f"{MASK} is fine", True)


@pytest.mark.parametrize(
    ("address", "gone", "stays"),
    [
        ("llm_1.prompt[0]", "hello", "a.py"),
        ("llm_2.prompt[-1]", "a.py", "hello"),
        ("llm_2.answer", "Wörld", "hello"),
        ("llm_1.answer.tool_calls[0].arguments", "ls", "hello"),
        ("tool_1.result", "seven files", "hello"),
        ("tool_1.arguments", "Bern", "seven"),
        ("task", "mend it", "mended"),
        ("metadata.who", "Ann", "hello"),
        ("step_7.reflection", "easy", "hello"),
    ],
)
def test_a_value_at_an_address_goes(address: str, gone: str, stays: str, tmp_path: Path) -> None:
    """The texts of the value go from all places that have them alone, and other texts stay."""
    with TrajectoryRecorder(tmp_path / "run.json", task="mend it", metadata={"who": "Ann"}) as recorder:
        tool = {"id": "c1", "name": "bash", "arguments": '{"command": "ls"}'}
        call(recorder, asked("hello"), said(None, calls=[(tool["id"], tool["name"], tool["arguments"])]))
        answered = [asked("hello")["messages"][0], {"role": "tool", "tool_call_id": "c1", "content": "a.py"}]
        call(recorder, asked(*answered), said("Wörld"))
        with recorder.tool_call("count", {"city": "Bern"}) as counting:
            counting.result = "seven files"
        recorder.record_agent_step(7, "completed", asked("hello")["messages"], {"content": "yes"}, reflection="easy")
        recorder.finalize(success=True, final_result="mended")

    redacted = redact(tmp_path / "run.json", path=address)

    text = json.dumps(load(tmp_path / "run.json").to_document(), ensure_ascii=False)
    assert (f'"{gone}"' in text, stays in text, redacted.count > 0, validate(tmp_path / "run.json").ok) == (
        *(False, True),
        *(True, True),
    )


@pytest.mark.parametrize("address", ["llm_9", "llm_1.prompt[7]", "tool_1", "nothing", "llm_1.prompt.x"])
def test_an_address_without_a_value_is_refused(address: str, tmp_path: Path) -> None:
    """The sentence says where the ids are shown."""
    run = rich_run(tmp_path / "run.json")

    with pytest.raises(RedactionRuleError, match="prints the ids"):
        redact(run, path=address)


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        ({}, "nothing says what to remove"),
        ({"pattern": "("}, "is not a regular expression"),
        ({"path": "llm_1.."}, "is not an address"),
        ({"text": ["fine", ""]}, "a text of 0 characters"),
    ],
)
def test_rules_that_cannot_be_used_are_refused(rules: dict[str, Payload], why: str, tmp_path: Path) -> None:
    """Nothing is read before the rules are right."""
    with pytest.raises(RedactionRuleError, match=why):
        redact(tmp_path / "missing.json", **rules)


def test_a_failing_function_changes_nothing(tmp_path: Path) -> None:
    """Its exception reaches the caller, and the files stay as they are."""
    run = rich_run(tmp_path / "run.json")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}

    def fail(text: str) -> str:
        raise ZeroDivisionError(text[:3])

    with pytest.raises(ZeroDivisionError):
        redact(run, function=fail)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_old_readers_pass_over_the_record(tmp_path: Path) -> None:
    """The record is of a kind of its own, which a reader without it skips."""
    run = rich_run(tmp_path / "run.json")
    redact(run, text="hello")
    records = read_raw(run.with_suffix(".jsonl").read_bytes())
    [removal] = [one.data for one in records if isinstance(one, RawRecord) and one.kind == "removal"]

    assert {*removal} == {"rules", "places"}


def test_the_names_of_rules_do_not_repeat_a_text(tmp_path: Path) -> None:
    """An address or the name of a function may have the text. The fact about the removal has a mask in its place."""

    def without_annabel(text: str) -> str:
        return text

    with TrajectoryRecorder(tmp_path / "run.json", metadata={"annabel": "annabel was here"}) as recorder:
        recorder.record_llm_interaction([], {"content": "annabel"}, "openai", "m")

    rules: dict[str, Any] = {"path": "metadata.annabel", "function": without_annabel}
    assert redact(tmp_path / "run.json", text="annabel", **rules).leftovers == ()
    assert b"annabel" not in b"".join(path.read_bytes() for path in tmp_path.glob("run.json*"))
    [removal] = load(tmp_path / "run.json").removals
    assert removal.rules[0] == "text"
    assert [rule.partition(" ")[0] for rule in removal.rules[1:]] == ["function", "path"]


def test_what_a_function_or_a_pattern_has_removed_is_not_found_again(tmp_path: Path) -> None:
    """They do not see the kinds of rules in the facts about earlier removals."""
    run = rich_run(tmp_path / "run.json")

    counts = [redact(run, pattern="[a-z]{3,}", function=str.upper).count for _ in range(2)]

    assert (counts[0] > 10, counts[1]) == (True, 0)


def test_a_link_is_followed_and_never_replaced(tmp_path: Path) -> None:
    """The text goes from the files that a link leads to. If only one file is a link, nothing is changed."""
    (tmp_path / "there").mkdir()
    (tmp_path / "here").mkdir()
    there = rich_run(tmp_path / "there" / "run.json")
    link = tmp_path / "here" / "run.json"
    link.symlink_to(there)

    text = load(there).task or ""
    assert redact(link, text=text).count > 0
    assert (link.is_symlink(), load(there).task) == (True, MASK)

    journal = there.with_suffix(".jsonl").rename(tmp_path / "moved.jsonl")
    there.with_suffix(".jsonl").symlink_to(journal)
    with pytest.raises(RecorderStateError, match="is a link, and would be replaced"):
        redact(link, text=MASK[1:5] + "never")


def test_a_text_in_the_name_of_a_file_is_named(tmp_path: Path) -> None:
    """Nobody else renames the files of a run."""
    run = rich_run(tmp_path / "Ann Lee.json")

    assert ["the name of the file" in leftover.place for leftover in redact(run, text="Ann Lee").leftovers] == [True]


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ({"text": b"key"}, "text cannot be of type int"),
        ({"text": 5}, "text cannot be of type int"),
        ({"pattern": [None]}, "pattern cannot be of type NoneType"),
        ({"pattern": re.compile(b"key")}, "is a pattern for bytes"),
        ({"function": "quiet"}, "function cannot be of type str"),
        ({"path": 3}, "path cannot be of type int"),
    ],
)
def test_a_rule_of_a_wrong_type_is_one_sentence(rule: dict[str, Any], why: str, tmp_path: Path) -> None:
    """The sentence never has the text."""
    with pytest.raises(RedactionRuleError, match=why):
        redact(tmp_path / "run.json", **rule)
