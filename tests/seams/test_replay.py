"""Calls by every HTTP library other than httpx are answered from their recording, and forked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.provider import CHAT, CHAT_STREAM, chat_chunk, plain, serving, stream
from tests.seams.callers import ASK, LIBRARIES, Library, Outcome
from tests.seams.frames import CLAUDE, CONVERSE, cut, frame
from tests.seams.test_seams import ANSWERS, PATH
from trace_recorder import TrajectoryRecorder, fork, load, replay
from trace_recorder.rerun.record_or_replay import RecordOrReplay

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # aiohttp warns of a response that its caller drops
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
Payload = Any
NOWHERE = f"http://127.0.0.1:9{PATH}"
each_library = pytest.mark.parametrize("kind", LIBRARIES.values(), ids=LIBRARIES)
NAMES = [name for name in ANSWERS if name not in {"closed", "left"}]


def recorded(kind: type[Library], path: Path, name: str) -> Outcome:
    """Record a call, and return the caller's outcome."""
    answer, way = ANSWERS[name]
    with serving(answer) as server, TrajectoryRecorder(path, strict=True) as recorder:
        return kind().outcome(server.url + PATH, way, recorder.wrap)


def comparable(outcome: Outcome) -> Payload:
    """Return the outcome without the chained exceptions, which name connections."""
    joined = outcome.joined()
    return joined.got, joined.raised and joined.raised[0]


@each_library
@pytest.mark.parametrize("name", NAMES)
def test_a_caller_gets_the_recorded_answer(tmp_path: Path, kind: type[Library], name: str) -> None:
    """A replay gives status, content type, bytes, types and exceptions as recorded, to a wrapped client and to any
    other.
    """
    came = recorded(kind, tmp_path / "run.json", name)

    with replay(tmp_path / "run.json", strict=False) as run:
        again = kind().outcome(NOWHERE, ANSWERS[name][1], run.wrap)
    with replay(tmp_path / "run.json", strict=False, instrument=True):
        anywhere = kind().outcome(NOWHERE, ANSWERS[name][1])

    assert comparable(again) == comparable(came)
    assert comparable(anywhere) == comparable(came)


@each_library
def test_chunks_are_given_one_by_one(tmp_path: Path, kind: type[Library]) -> None:
    """In a replay, a reader by lines gets the recorded lines one by one, and with `speed` at their times."""
    pieces = [chat_chunk("one"), 0.2, chat_chunk("two"), b"data: [DONE]\n\n"]
    with serving(stream(*pieces)) as server, TrajectoryRecorder(tmp_path / "run.json") as recorder:
        came = kind().outcome(server.url + PATH, "lines", recorder.wrap)
    [call] = load(tmp_path / "run.json").llm_interactions
    with replay(tmp_path / "run.json", speed=1) as run, TrajectoryRecorder(tmp_path / "again.json") as recorder:
        again = kind().outcome(NOWHERE, "lines", lambda client: recorder.wrap(run.wrap(client)))
    [repeated] = load(tmp_path / "again.json").llm_interactions

    assert again == came
    assert repeated.attempts[0].duration_seconds >= call.attempts[0].duration_seconds - 0.05 > 0.1


@each_library
@pytest.mark.parametrize("recorder_first", [True, False])
def test_a_replay_is_recorded_with_its_sources(tmp_path: Path, kind: type[Library], recorder_first: bool) -> None:
    """If a replay is recorded, each call names the recorded call that answered it, whether the recorder or the replay
    was bound first.
    """
    for name in ("whole", "lines", "refused", "cut off"):
        recorded(kind, tmp_path / f"{name}.json", name)

        def bind(client: Payload) -> None:
            for wrap in (recorder.wrap, run.wrap) if recorder_first else (run.wrap, recorder.wrap):  # noqa: B023
                wrap(client)

        with replay(tmp_path / f"{name}.json") as run, TrajectoryRecorder(tmp_path / f"{name} 2.json") as recorder:
            kind().outcome(NOWHERE, ANSWERS[name][1], bind)
        [call] = load(tmp_path / f"{name}.json").llm_interactions
        [again] = load(tmp_path / f"{name} 2.json").llm_interactions

        assert again.replayed_from is not None
        assert again.replayed_from.interaction_id == call.interaction_id
        assert (again.response, again.complete, again.raw_request) == (call.response, call.complete, call.raw_request)


@each_library
@pytest.mark.parametrize("is_recorded", [True, False])
def test_a_client_is_unchanged_afterwards(tmp_path: Path, kind: type[Library], is_recorded: bool) -> None:
    """After a replay, the client sends its calls again, and they are recorded if it is still wrapped."""
    recorded(kind, tmp_path / "run.json", "whole")
    library = kind()
    client = library.client()
    with serving(plain(CHAT)) as server, TrajectoryRecorder(tmp_path / "again.json") as recorder:
        if is_recorded:
            recorder.wrap(client)
        before = dict(vars(client))
        with replay(tmp_path / "run.json", strict=False) as run:
            run.wrap(client)
        assert vars(client) == before
        library.post(client, server.url + PATH, b'{"messages": []}')
        library.close(client)

    assert (len(server.requests), len(load(tmp_path / "again.json").llm_interactions)) == (1, int(is_recorded))


FAILURE = frame("throttlingException", {"message": "Too many requests."}, "exception")
FRAMES = {
    "converse-stream": CONVERSE,
    "invoke-with-response-stream": CLAUDE,
    "invoke-with-response-stream, failed": [*CLAUDE[:4], FAILURE],
}


@each_library
@pytest.mark.parametrize("name", FRAMES)
@pytest.mark.parametrize("size", [1, 100_000])
def test_frames_are_built_again(tmp_path: Path, kind: type[Library], name: str, size: int) -> None:
    """The bytes of a replayed event stream equal those that were recorded, from chunks of any size."""
    path = f"/model/anthropic.claude-3/{name.partition(',')[0]}"

    def post(url: str, bind: Callable[[Payload], object]) -> bytes:
        library = kind()
        client = library.client()
        bind(client)
        got = library.post(client, url + path, b'{"messages": []}')
        library.close(client)
        return got

    with serving(cut(FRAMES[name], size)) as server, TrajectoryRecorder(tmp_path / "run.json") as recorder:
        came = post(server.url, recorder.wrap)
    with replay(tmp_path / "run.json") as run:
        again = post("http://127.0.0.1:9", run.wrap)

    assert (came, again) == (b"".join(FRAMES[name]),) * 2


@each_library
def test_a_different_request_is_a_failed_connection(tmp_path: Path, kind: type[Library]) -> None:
    """A request that differs from the recording raises the library's own connection error, and the end of the block
    raises the difference.
    """
    recorded(kind, tmp_path / "run.json", "whole")
    with pytest.raises(Exception, match=r"messages\[0\].content: \{\+hello\+\}|content|stream"):
        with replay(tmp_path / "run.json") as run:
            outcome = kind().outcome(NOWHERE, "lines", run.wrap)

    assert "ReplayMismatchError" in str(outcome.raised)


@each_library
def test_other_requests_are_sent_to_their_server(tmp_path: Path, kind: type[Library]) -> None:
    """A replay sends a request that is not an LLM call to its server."""
    recorded(kind, tmp_path / "run.json", "whole")
    with serving(plain({"data": []})) as server, replay(tmp_path / "run.json", strict=False, instrument=True):
        outcome = kind().outcome(f"{server.url}/v1/models", "whole")

    assert (len(server.requests), outcome.raised) == (1, None)


@each_library
def test_a_fork_sends_later_calls(tmp_path: Path, kind: type[Library]) -> None:
    """A fork answers earlier calls from the run, sends the chosen call with another model, and records all calls."""
    with serving(plain(CHAT), stream(*CHAT_STREAM)) as server, TrajectoryRecorder(tmp_path / "run.json") as recorder:
        first = kind().outcome(server.url + PATH, "whole", recorder.wrap)
        kind().outcome(server.url + PATH, "lines", recorder.wrap)
    with serving(stream(*CHAT_STREAM)) as server:
        child = TrajectoryRecorder(tmp_path / "fork.json", strict=True)
        with fork(tmp_path / "run.json", at="llm_2", model="other", recorder=child) as branch:
            replayed = kind().outcome(server.url + PATH, "whole", branch.wrap)
            kind().outcome(server.url + PATH, "lines", branch.wrap)
        asked = server.bodies()
    calls = load(tmp_path / "fork.json").llm_interactions

    assert replayed.joined() == first.joined()
    assert asked == [{**ASK, "stream": True, "model": "other"}]
    assert [call.response.content for call in calls] == ["hi", "Grüße"]
    assert [call.replayed_from is None for call in calls] == [False, True]
    assert calls[1].raw_request == asked[0]


@each_library
def test_a_block_is_recorded_and_then_replayed(tmp_path: Path, kind: type[Library]) -> None:
    """The calls of a block are recorded the first time and answered from the recording the second time."""
    journal = tmp_path / "journal.jsonl"
    with serving(plain(CHAT)) as server:
        with RecordOrReplay(journal, tmp_path / "1"):
            came = kind().outcome(server.url + PATH, "whole")
        with RecordOrReplay(journal, tmp_path / "2"):
            again = kind().outcome(server.url + PATH, "whole")

    assert (len(server.requests), again) == (1, came)
