"""`content=`: what a recorder never writes, at any moment, and that its runs keep their figures."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from tests.data.recorded import URL, chunks, client_of, streamed
from tests.data.written import asked, called, said
from tests.storage.content_tiers.texts import found_in
from trace_recorder import TrajectoryRecorder, load, replay
from trace_recorder.attach.settings import CONTENT_VARIABLE
from trace_recorder.errors import TrajectoryFormatError
from trace_recorder.recording.amend import append_annotation, append_rewards

PLANTED = "Heidelberger Strasse 7"
WORDS = ["Heidel", "berger", " Strasse", " 7"]
"""The planted text, as a stream has it."""


def _files(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if path.is_file()]


def _work(recorder: TrajectoryRecorder) -> Iterator[str]:
    """Record everything that a recorder can record, with a planted text in it. Yield after each."""
    usage = {"prompt_tokens": 9, "completion_tokens": 1}
    call = called("call_1", "read_file", path=PLANTED)
    client = client_of(
        recorder,
        lambda _: httpx.Response(200, json=said(PLANTED, call, usage=usage)),
        lambda _: httpx.Response(429, json={"error": {"type": "rate_limit", "message": PLANTED}}),
        lambda _: streamed(*chunks(*WORDS)),
        lambda _: streamed(*chunks(*WORDS, *(["and more text "] * 20_000))),
        lambda _: httpx.Response(200, content=f"<html>{PLANTED}".encode(), headers={"x-request-id": "r1"}),
        _refuse,
    )
    question = {"role": "user", "content": PLANTED, "name": PLANTED}
    tools = [{"type": "function", "function": {"name": "read_file", "description": PLANTED}}]
    yield "start"
    client.post(URL, json=asked(question, tools=tools, metadata={PLANTED: PLANTED}))
    yield "answer"
    client.post(f"{URL}?user={PLANTED.replace(' ', '+')}", json=asked(question))
    yield "refused"
    client.post(URL, json=asked(question, stream=True))
    yield "stream"
    with client.stream("POST", URL, json=asked(question, stream=True)) as response:
        for number, _ in enumerate(response.iter_bytes()):
            if number % 4_000 == 0:
                yield "part of a stream"
    client.post(URL, content=PLANTED.encode())
    yield "no JSON"
    with suppress(httpx.ConnectError):
        client.post(URL, json=asked(question))
    yield "no answer"

    @recorder.tool
    def read_file(path: str) -> str:
        raise OSError(path)

    with recorder.agent(PLANTED), recorder.step(1), suppress(OSError):
        read_file(PLANTED)
    yield "tool"
    recorder.record_llm_interaction([question], {"content": PLANTED, "reasoning": PLANTED}, "p", "m", tools)
    recorder.record_agent_step(2, "thinking", [question], {"content": PLANTED}, reflection=PLANTED, error=PLANTED)
    recorder.annotate(PLANTED, {PLANTED: PLANTED})
    recorder.reward("tests", 0.5, explanation=PLANTED)
    yield "by hand"


def _refuse(_: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError(PLANTED)


def _settings(recorder: dict[str, object]) -> dict[str, object]:
    return {"task": PLANTED, "metadata": {PLANTED: PLANTED}, **recorder}


def test_no_text_is_on_disk_at_any_moment(tmp_path: Path) -> None:
    """The journal, the document and temporary files are searched after each record, and while a stream comes."""
    with TrajectoryRecorder(tmp_path / "run.json", content="none", strict=True, **_settings({})) as recorder:  # type: ignore[arg-type]
        moments = []
        for moment in _work(recorder):
            moments.append(moment)
            assert found_in([PLANTED, *WORDS[:2], "and more text"], _files(tmp_path)) == [], moment
        recorder.finalize(success=True, final_result=PLANTED)
    assert found_in([PLANTED, *WORDS[:2]], _files(tmp_path)) == []
    assert moments.count("part of a stream") > 2


def test_a_run_without_texts_has_its_figures(tmp_path: Path) -> None:
    """The same work is recorded with and without texts."""
    runs = []
    for content in ("full", "none"):
        path = tmp_path / f"{content}.json"
        with TrajectoryRecorder(path, content=content, **_settings({})) as recorder:  # type: ignore[arg-type]
            for _ in _work(recorder):
                continue
        runs.append(load(path))
    full, none = runs
    assert [_figures(run) for run in runs] == [_figures(full)] * 2
    assert len(full.llm_interactions) == 7
    assert none.task != PLANTED


def _figures(run: object) -> list[object]:
    calls = run.llm_interactions  # type: ignore[attr-defined]
    return [
        (
            *(call.model, call.complete, call.error is None, call.response.usage, call.response.finish_reason),
            *(len(call.raw_chunks or ()), [tool.name for tool in call.response.tool_calls], len(call.input_messages)),
        )
        for call in calls
    ]


def test_failures_of_recording_do_not_quote_texts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Neither in the log nor in a gap: only the class of an error is said."""

    def broken(text: str) -> str:
        raise ValueError(f"cannot mask {text}")

    with caplog.at_level(logging.INFO, logger="trace_recorder"):
        with TrajectoryRecorder(tmp_path / "run.json", content="none", redact=broken, task=PLANTED) as recorder:
            recorder.record_llm_interaction([{"role": "user", "content": PLANTED}], {"content": PLANTED}, "p", "m")
        assert "ValueError" in caplog.text
        assert PLANTED not in caplog.text
    assert found_in([PLANTED], _files(tmp_path)) == []


def test_what_is_added_later_has_no_text_either(tmp_path: Path) -> None:
    """Rewards and annotations follow the tier that the run states."""
    path = tmp_path / "run.json"
    with TrajectoryRecorder(path, content="none"):
        pass
    append_annotation(path, PLANTED, PLANTED)
    append_rewards(path, [{"name": "tests", "value": 1.0, "weight": 1.0, "step_number": None, "explanation": PLANTED}])
    assert found_in([PLANTED], _files(tmp_path)) == []
    assert [reward.value for reward in load(path).rewards] == [1.0]


def test_a_run_without_texts_cannot_be_replayed(tmp_path: Path) -> None:
    """It has no answers, and says so."""
    with TrajectoryRecorder(tmp_path / "run.json", content="none"):
        pass
    with pytest.raises(TrajectoryFormatError, match="without texts"), replay(tmp_path / "run.json"):
        pass


def test_masked_hides_people_and_machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also an address that a stream has in pieces. Readers still see that the run is being recorded."""
    monkeypatch.setenv("USER", "heidi-k")
    texts = ["heidi-k wrote to heidi", "@exa", "mple.com from 10.1.2.3"]
    path = tmp_path / "run.json"
    with TrajectoryRecorder(path, content="masked", task="/home/someone/a.py of heidi-k") as recorder:
        client = client_of(recorder, lambda _: streamed(*chunks(*texts)))
        client.post(URL, json=asked({"role": "user", "content": "Ask heidi@example.com."}, stream=True))
        assert load(path).status == "running"
        recorder.finalize(success=True, final_result="total 4\nheidi-k 10\theidi-k")
    run, start = load(path), json.loads((tmp_path / "run.jsonl").read_text().splitlines()[0])["data"]
    assert run.task == "/home/[REDACTED:user-name]/a.py of [REDACTED:user-name]"
    assert run.llm_interactions[0].response.content == (
        "[REDACTED:user-name] wrote to [REDACTED:email-address] from [REDACTED:ip-address]"
    )
    assert run.final_result == "total 4\n[REDACTED:user-name] 10\t[REDACTED:user-name]"
    assert (start["content"], "host" in start) == ("masked", False)
    assert found_in(["heidi-k", "heidi@example.com", "10.1.2.3", "@exa"], _files(tmp_path)) == []


@pytest.mark.parametrize(
    ("word", "has_text"), [("none", False), ("NONE", False), ("nothing", False), ("full", True), ("", True)]
)
def test_the_environment_says_it_for_programs_that_do_not(
    word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_text: bool
) -> None:
    """An unknown word writes no text, because it was meant to write less."""
    monkeypatch.setenv(CONTENT_VARIABLE, word)
    with TrajectoryRecorder(tmp_path / "run.json", task=PLANTED):
        pass
    assert (found_in([PLANTED], _files(tmp_path)) == [PLANTED]) is has_text


def test_a_wrong_content_raises() -> None:
    """Also one that nothing would mask."""
    with pytest.raises(ValueError, match="content is 'some', and must be one of 'full', 'masked', 'none'"):
        TrajectoryRecorder(content="some")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="redact=None masks nothing"):
        TrajectoryRecorder(content="masked", redact=None)


def test_a_secret_in_an_identifier_is_masked(tmp_path: Path) -> None:
    """Also in an event of a stream, where an id is kept and texts are not."""
    key = "sk-proj-" + "a1B2c3D4e5" * 5
    event = {"id": key, "choices": [{"index": 0, "delta": {"content": "Hello"}}]}
    with TrajectoryRecorder(tmp_path / "run.json", content="none") as recorder:
        client = client_of(
            recorder,
            lambda _: streamed(f"data: {json.dumps(event)}\n\n".encode()),
            lambda _: httpx.Response(200, json={"id": key}),
        )
        client.post(URL, json=asked({"role": "user", "content": "Hi"}, stream=True))
        client.post(URL, json=asked({"role": "user", "content": "Hi"}))
    assert found_in([key], _files(tmp_path)) == []
    assert len(load(tmp_path / "run.json").llm_interactions) == 2
