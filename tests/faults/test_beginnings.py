"""The system refuses operations when a run begins: `start` reports it, and an agent that only makes calls goes on."""

from __future__ import annotations

import errno
import logging
import os
import resource
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import openai
import pytest

from tests.faults.answering import Provider, answer_to
from tests.faults.unlucky import LENGTH, UnavailableError, ask, attribute, limit, no_descriptors
from tests.processes import python
from trace_recorder import TrajectoryPathError, TrajectoryRecorder, load


@contextmanager
def may_be_unavailable(fault: AbstractContextManager[None]) -> Iterator[None]:
    """Skip the test if a fault cannot be produced here."""
    try:
        with fault:
            yield
    except UnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture
def client(provider: Provider) -> Iterator[openai.OpenAI]:
    """A connected client, whose next call opens no connection."""
    with openai.OpenAI(api_key="k", base_url=provider.address_for("beginner"), max_retries=0) as client:
        ask(client, "hello?")
        yield client


def test_without_descriptors_the_agent_runs_unrecorded(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """If no file can be opened, one error is logged, no file remains, and `start` can be called again."""
    recorder = TrajectoryRecorder(tmp_path / "run.json")

    with no_descriptors(tmp_path):
        assert recorder.start() == str(tmp_path / "run.json")
        with recorder.step(), recorder.tool_call("bash"):
            recorder.annotate("a", 1)
        recorder.finalize(success=True)

    assert list(tmp_path.iterdir()) == []
    [logged] = [record for record in caplog.records if record.levelname == "ERROR"]
    assert ("Too many open files" in logged.message, str(tmp_path) in logged.message) == (True, True)
    recorder.start(task="again")
    recorder.finalize()
    assert load(tmp_path / "run.json").task == "again"


def test_with_strict_start_says_that_no_file_can_be_created(tmp_path: Path) -> None:
    with no_descriptors(tmp_path), pytest.raises(TrajectoryPathError, match="Too many open files"):
        TrajectoryRecorder(tmp_path / "run.json", strict=True).start()


def test_an_agent_runs_in_a_read_only_directory(
    tmp_path: Path, client: openai.OpenAI, caplog: pytest.LogCaptureFixture
) -> None:
    """The agent's calls are answered, and one error names the path. With `strict`, `start` raises that error."""
    with may_be_unavailable(attribute(tmp_path, "i")):
        with TrajectoryRecorder(tmp_path / "run.json") as recorder:
            recorder.wrap(client)
            ask(client, "hello?")
        with pytest.raises(TrajectoryPathError) as raised:
            TrajectoryRecorder(tmp_path / "run.json", strict=True).start()

    assert [str(tmp_path / "run.json") in record.message for record in caplog.records] == [True]
    assert (raised.value.errno, raised.value.filename) == (errno.EPERM, str(tmp_path / "run.json"))


def test_an_agent_runs_on_a_read_only_file_system(tmp_path: Path) -> None:
    """The logged error has the system's reason, a file system that is mounted read-only."""
    code = "from trace_recorder import TrajectoryRecorder; TrajectoryRecorder('run.json').start()"
    script = f'mount --bind . . && mount -o remount,ro,bind . && cd "$PWD" && exec "$0" -c "{code}"'
    command = ["unshare", "--mount", "sh", "-c", script]
    ended = python(
        f"""
        import os, subprocess, sys
        os.chdir(sys.argv[1])
        sys.exit(subprocess.run([*{command!r}, sys.executable]).returncode)
        """,
        tmp_path,
    )
    if "unshare" in ended.stderr or "mount:" in ended.stderr:
        pytest.skip(ended.stderr)

    assert ended.stderr.startswith("[Errno 30] Cannot create")
    assert "Read-only file system" in ended.stderr
    assert ended.returncode == 0


@pytest.mark.parametrize("path", ["x" * 300, "file/run.json", "a\0b"], ids=["too long", "in a file", "nul"])
def test_a_client_whose_run_cannot_begin_is_answered(
    path: str, tmp_path: Path, client: openai.OpenAI, caplog: pytest.LogCaptureFixture
) -> None:
    """A wrapped client works although its recorder was not started and cannot write. One warning is logged."""
    (tmp_path / "file").touch()
    TrajectoryRecorder(tmp_path / path).wrap(client)

    answers = [ask(client, f"question {number}") for number in range(3)]

    assert answers == [answer_to(f"question {number}", LENGTH) for number in range(3)]
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_a_run_begins_when_its_file_can_be_created(tmp_path: Path, client: openai.OpenAI) -> None:
    """A client's calls before the file can be created are answered, and are gaps of the run that begins then."""
    recorder = TrajectoryRecorder(tmp_path / "run.json")
    recorder.wrap(client)
    with no_descriptors(tmp_path):
        ask(client, "early")

    ask(client, "late")

    recorder.finalize()
    trajectory = load(tmp_path / "run.json")
    assert [call.input_messages[-1].content for call in trajectory.llm_interactions] == ["late"]
    assert len(trajectory.gaps) == 1


def test_a_start_is_written_when_there_is_room(tmp_path: Path) -> None:
    """If the disk was full at a run's beginning, all facts of the run are written as soon as there is room."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", task="begin", metadata={"a": 1})
    with limit(resource.RLIMIT_FSIZE, 100):
        recorder.start(provider="p", model="m")

    recorder.annotate("now", "there is room")

    recorder.finalize(success=True)
    trajectory = load(tmp_path / "run.json")
    assert (trajectory.task, trajectory.provider, trajectory.model, trajectory.metadata, trajectory.annotations) == (
        *("begin", "p", "m", {"a": 1}),
        {"now": "there is room"},
    )


PLACES = {"ascii": b"plain", "utf-8": "größe \N{SNOWMAN}".encode(), "not utf-8": b"gr\xf6\xdfe"}


@pytest.mark.parametrize("place", PLACES)
def test_a_run_is_recorded_in_a_locale_other_than_utf_8(
    place: str, tmp_path: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the locale C, a run is recorded as usual, in a directory of any name."""
    for name, value in {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}.items():
        monkeypatch.setenv(name, value)
    code = """
        import openai, os, sys
        from tests.faults.unlucky import ask
        from trace_recorder import TrajectoryRecorder
        assert sys.getfilesystemencoding() == "ascii", sys.getfilesystemencoding()
        with TrajectoryRecorder(os.path.join(sys.argv[1], "run.json"), task="gr\\xfc\\xdfen \\u2603") as recorder:
            client = recorder.wrap(openai.OpenAI(api_key="k", base_url=sys.argv[2], max_retries=0))
            ask(client, "gr\\xfc\\xdfe \\u2603")
            recorder.annotate("place", sys.argv[1])
    """
    directory = tmp_path / os.fsdecode(PLACES[place])

    ended = python(code, directory, provider.address_for("local"))

    trajectory = load(directory / "run.json")
    [one] = trajectory.llm_interactions
    assert (ended.returncode, ended.stderr, trajectory.task) == (0, "", "grüßen \N{SNOWMAN}")
    assert one.response.content == answer_to("grüße \N{SNOWMAN}", LENGTH)


def test_a_gap_in_a_directory_with_an_undecodable_name_is_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reason that names a file with an undecodable name is valid text."""
    logger = logging.getLogger("trace_recorder")
    # A test report with such a name cannot be passed on between processes.
    monkeypatch.setattr(logger, "propagate", False)
    directory = tmp_path / os.fsdecode(b"gr\xf6\xdfe")
    recorder = TrajectoryRecorder(directory / "run.json")
    recorder.start()
    directory.rename(tmp_path / "elsewhere")
    recorder.annotate("document", "cannot be written")
    (tmp_path / "elsewhere").rename(directory)

    recorder.finalize()

    assert [type(gap.why) for gap in load(directory / "run.json").gaps] == [str]


def test_a_child_whose_file_cannot_be_created_goes_on(tmp_path: Path) -> None:
    """A failure to create a forked child's file does not disturb the child, which is in the middle of its work."""
    ended = python(
        """
        import os, sys
        from pathlib import Path
        from tests.faults.unlucky import no_descriptors
        from trace_recorder import TrajectoryRecorder
        recorder = TrajectoryRecorder(sys.argv[1] + "/run.json")
        recorder.start()
        if os.fork() == 0:
            with no_descriptors(Path(sys.argv[1])):
                recorder.record_agent_step(1, "completed")
                recorder.annotate("a", 1)
            os._exit(0)
        sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
        """,
        tmp_path,
    )

    assert ended.returncode == 0, ended.stderr
