"""A run ends during a stream, in a thread, or with the interpreter. The received part is recorded."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import openai
import pytest

from tests.faults.answering import Provider, answer_to
from tests.faults.unlucky import LENGTH
from tests.processes import python
from tests.provider import SILENCE, chat_chunk, serving, stream
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.reading.validate import validate

PIECES = [chat_chunk("one "), 0.1, chat_chunk("two "), 0.1, chat_chunk("three"), chat_chunk(None, "stop")]


def other_lines(stderr: str) -> list[str]:
    """Return the lines without the sentence about a run that was not ended."""
    return [line for line in stderr.splitlines() if "was started and not ended" not in line]


def errors(path: Path) -> list[str]:
    """Return the faults in the files of a run."""
    return [f"{finding.where}: {finding.what}" for finding in validate(path).findings if finding.severity == "error"]


@pytest.mark.parametrize("ending", ["finalize", "block", "start"])
def test_a_run_that_ends_in_a_stream_has_the_received_part(
    ending: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The pieces that the caller got are an answer that the end of the run cut off. No error is logged."""
    recorder = TrajectoryRecorder(tmp_path / "run.json")
    with serving(stream(*PIECES)) as server, openai.OpenAI(api_key="k", base_url=f"{server.url}/v1") as client:
        recorder.__enter__()
        asked = {"model": "m", "messages": [{"role": "user", "content": "go"}], "stream": True}
        chunks = recorder.wrap(client).chat.completions.create(**asked)  # type: ignore[call-overload]
        had = next(chunks).choices[0].delta.content
        path = recorder.trajectory_path
        if ending == "start":
            with pytest.warns(UserWarning, match="closed as interrupted"):
                recorder.start()
            path = tmp_path / "run.1.json"
        elif ending == "block":
            recorder.__exit__(None, None, None)
        else:
            recorder.finalize()
        rest = [chunk.choices[0].delta.content for chunk in chunks]

    [one] = load(path).llm_interactions
    assert (had, rest) == ("one ", ["two ", "three", None])
    assert (one.complete, one.ended_by, one.response.content) == (False, "the run ended", "one ")
    aside = f"{tmp_path / 'run.json'} belonged to an earlier run, and was renamed to {path}"
    assert (errors(path), caplog.messages) == ([], [aside] if ending == "start" else [])


AT_EXIT = """
    import atexit, gc, sys, threading
    asking, ended = threading.Event(), threading.Event()
    @atexit.register
    def last():  # what is registered first runs last: after the recorder has heard of the exit
        asking.set()
        ended.wait()
        gc.collect()
        {last}
    import openai, trace_recorder
    from tests.faults.unlucky import ask
    def call_late():
        client = recorder.wrap(openai.OpenAI(api_key="k", base_url=sys.argv[2], max_retries=0))
        asking.wait()
        for number in range(3):
            ask(client, f"late {number}")
        ended.set()
    recorder = trace_recorder.TrajectoryRecorder(sys.argv[1] + "/run.json")
    recorder.start()
    threading.Thread(target=call_late, daemon=True).start()
"""


@pytest.mark.parametrize(
    ("last", "status"), [("pass", "interrupted"), ("recorder.finalize(success=True)", "completed")]
)
def test_calls_while_the_interpreter_ends_are_recorded(
    last: str, status: str, tmp_path: Path, provider: Provider
) -> None:
    """A daemon thread's calls are recorded after the recorder's exit handler has run. The run may still be finalized
    then. Only a run that is not finalized gets the sentence that says how to end a run.
    """
    ended = python(AT_EXIT.replace("{last}", last), tmp_path, provider.address_for("late"))

    trajectory, path = load(tmp_path / "run.json"), tmp_path / "run.json"
    answers = [call.response.content if call.response else None for call in trajectory.llm_interactions]
    says_how_to_end = "was started and not ended" in ended.stderr
    assert (ended.returncode, other_lines(ended.stderr)) == (0, [])
    assert says_how_to_end is (status == "interrupted")
    assert answers == [answer_to(f"late {number}", LENGTH) for number in range(3)]
    assert (trajectory.status, json.loads(path.read_text())["status"], errors(path)) == (status, status, [])


def test_a_stream_that_is_open_when_the_interpreter_ends_is_recorded_completely(tmp_path: Path) -> None:
    """The end of a part that may continue as a secret waits for the next part, but not at the end of the process.

    The process ends as it does unrecorded. Python 3.13.0 crashes there, with and without us.
    """
    agent = """
        import sys, openai, trace_recorder
        client = openai.OpenAI(api_key="k", base_url=sys.argv[2], max_retries=0)
        if "recorded" in sys.argv:
            recorder = trace_recorder.TrajectoryRecorder(sys.argv[1] + "/run.json")
            recorder.start()
            client = recorder.wrap(client)
        ask = {"stream": True, "stream_options": {"include_usage": True}}
        chunks = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "go"}], **ask)
        said = next(chunks), next(chunks)
        """
    with serving(stream(chat_chunk("The answer is "), chat_chunk("k7"), SILENCE)) as server:
        unrecorded = python(agent, tmp_path, f"{server.url}/v1")
        ended = python(agent, tmp_path, f"{server.url}/v1", "recorded")

    [one] = load(tmp_path / "run.json").llm_interactions
    assert (ended.returncode, one.response.content) == (unrecorded.returncode, "The answer is k7")
    assert other_lines(ended.stderr) == unrecorded.stderr.splitlines() or sys.version_info >= (3, 13)


def test_a_call_after_the_recorder_s_exit_handlers_is_in_the_document(tmp_path: Path) -> None:
    """So late no thread writes the document, so the call writes it when it has ended."""
    ended = python(
        """
        import atexit, sys
        atexit.register(lambda: call(recorder, asked("late?"), said("late")))  # registered first, called last
        from tests.chat_calls import asked, call, said
        from trace_recorder import TrajectoryRecorder
        recorder = TrajectoryRecorder(sys.argv[1] + "/run.json")
        recorder.start()
        """,
        tmp_path,
    )

    document = json.loads((tmp_path / "run.json").read_text())
    answers = [call["response"]["content"] for call in document["llm_interactions"]]
    said = other_lines(ended.stderr)
    assert (ended.returncode, said, document["status"], answers) == (0, [], "interrupted", ["late"])


def test_an_ended_multiprocessing_worker_counts_as_ended(tmp_path: Path) -> None:
    """A worker's end runs no handlers, so its document says "running" for ever.

    The free lock of its journal shows the end.
    """
    ended = python(
        """
        import multiprocessing, sys
        from trace_recorder import TrajectoryRecorder
        def work():
            recorder = TrajectoryRecorder(sys.argv[1] + "/run.json")
            recorder.annotate("a", 1)
            globals()["kept"] = recorder
        worker = multiprocessing.get_context("fork").Process(target=work)
        worker.start()
        worker.join()
        """,
        tmp_path,
    )

    path = tmp_path / "run.json"
    trajectory = load(path)
    assert (ended.returncode, ended.stderr, json.loads(path.read_text())["status"]) == (0, "", "running")
    assert (trajectory.status, trajectory.annotations) == ("interrupted", {"a": 1})


def test_a_garbage_collected_recorder_ends_its_run(tmp_path: Path) -> None:
    """The run is then interrupted, and its name free for the next run, while the process goes on."""
    recorder = TrajectoryRecorder(tmp_path / "run.json")
    recorder.annotate("a", 1)
    del recorder

    written = json.loads((tmp_path / "run.json").read_text())["status"]
    with TrajectoryRecorder(tmp_path / "run.json") as after:
        pass

    assert (written, after.trajectory_path.name) == ("interrupted", "run.json")


def test_a_document_that_cannot_be_written_is_two_gaps(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Two gaps report the failure, for any number of records: that it began, and how often it happened."""
    recorder = TrajectoryRecorder(tmp_path / "run.json")
    recorder.start()
    (tmp_path / "run.json").unlink()
    (tmp_path / "run.json").mkdir()
    for number in range(50):
        recorder.annotate(str(number), number)
    (tmp_path / "run.json").rmdir()

    recorder.annotate("after", 1)
    recorder.finalize()

    gaps = load(tmp_path / "run.json").gaps
    assert [(gap.what, gap.why.rpartition("'")[2]) for gap in gaps] == [
        ("write the document", ""),
        ("write the document", " (49 more)"),
    ]
    assert (len(caplog.messages), errors(tmp_path / "run.json")) == (1, [])


@pytest.mark.parametrize("then", ["os._exit(0)", "pass"])
def test_a_signal_s_handler_may_finalize_at_any_moment(then: str, tmp_path: Path) -> None:
    """The handler may run in the middle of any record, and the run's files are valid."""
    code = f"""
        import os, signal, sys
        from tests.chat_calls import asked, call, is_running, said
        from trace_recorder import TrajectoryRecorder
        recorder = TrajectoryRecorder(sys.argv[1])
        recorder.start()
        def end(*_):
            recorder.finalize(success=False)
            {then}
        signal.signal(signal.SIGALRM, end)
        signal.setitimer(signal.ITIMER_REAL, float(sys.argv[2]))
        while is_running(recorder):
            call(recorder, asked("question"), said("x"))
    """
    for number in range(4):
        path = tmp_path / f"{number}.json"
        ended = python(code, path, 0.05 + 0.0137 * number)
        assert (ended.returncode, load(path).status, errors(path)) == (0, "completed", []), ended.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="SIGSTOP and /proc are needed")
def test_a_stopped_process_is_running(tmp_path: Path) -> None:
    """A process that was stopped by a signal keeps its lock, and is not taken for dead."""
    pid = os.fork()
    if pid == 0:
        recorder = TrajectoryRecorder(tmp_path / "run.json")
        recorder.start()
        (tmp_path / "started").touch()
        time.sleep(60)
        os._exit(0)
    while not (tmp_path / "started").exists():
        time.sleep(0.01)
    os.kill(pid, signal.SIGSTOP)

    status = load(tmp_path / "run.json").status

    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert (status, load(tmp_path / "run.json").status) == ("running", "interrupted")
