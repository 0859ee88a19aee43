"""`trace-recorder run` and programs that use the package themselves, with and without a recorder of their own."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.agents import Place, ending
from trace_recorder import load


def test_a_client_that_follows_the_context_is_recorded(place: Place) -> None:
    """A client of `trace_recorder.wrap` is recorded once, although no recorder is active, and so is a tool."""
    code = """
    import trace_recorder
    from openai import OpenAI

    client = trace_recorder.wrap(OpenAI())

    @trace_recorder.tool
    def look(name):
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": name}])

    look("tea")
    """
    done = place.run(*place.agent(code))

    [path] = place.files()
    assert ([call.input_messages[0].content for call in load(path).llm_interactions], done.stderr) == (
        ["tea"],
        f"trace-recorder: recorded 1 run, 1 LLM call, 1 tool call: trajectories/{path.name}\n",
    )


def test_instrument_in_the_agent_takes_nothing_from_the_command(place: Place) -> None:
    """An agent that instruments itself, with a recorder and without one, is recorded before, meanwhile and after."""
    code = """
    import trace_recorder
    call()
    own = trace_recorder.TrajectoryRecorder("own.json")
    trace_recorder.instrument(recorder=own)
    call()
    own.finalize()
    trace_recorder.uninstrument()
    call()
    trace_recorder.instrument()
    call()
    """
    place.run(*place.agent(code))

    [ours] = place.files()
    assert (len(load(place.path / "own.json").llm_interactions), ending(ours)["calls"]) == (1, 3)


def test_an_agent_s_threads_belong_to_its_own_recorder(place: Place) -> None:
    """The only recorder that the agent has made records calls in threads without a context."""
    code = """
    from concurrent.futures import ThreadPoolExecutor
    from trace_recorder import TrajectoryRecorder
    call()
    with TrajectoryRecorder("own.json"), ThreadPoolExecutor() as pool:
        [*pool.map(lambda _: call(), range(3))]
    call()
    """
    place.run(*place.agent(code))

    [ours] = place.files()
    assert (len(load(place.path / "own.json").llm_interactions), ending(ours)["calls"]) == (3, 2)


@pytest.mark.parametrize("name", ["with", "instrument", "following"])
def test_a_wrong_default_of_an_agent_s_own_recorder_changes_nothing(name: str, place: Place) -> None:
    """The agent's own recorder writes to the command's directory, whatever the agent's default directory is."""
    (place.path / "trajectories").write_text("")
    opening = {
        "with": "with trace_recorder.TrajectoryRecorder(): call()",
        "instrument": "trace_recorder.instrument(recorder=trace_recorder.TrajectoryRecorder()); call()",
        "following": "trace_recorder.TrajectoryRecorder().start(); trace_recorder.step().__enter__(); call()",
    }[name]
    done = place.run("--directory", "out", *place.agent(f"import trace_recorder\n{opening}\nprint('done')"))

    [ours] = (place.path / "out").glob("*.json")
    assert (done.returncode, done.stdout, ending(ours)["calls"]) == (0, "done\n", 1)


def test_a_removed_working_directory_changes_nothing(place: Place) -> None:
    """The agent runs where the working directory is gone, and is recorded if the directory of the files exists."""
    agent = [*place.agent("call(); print('done')")]
    (place.path / "gone").mkdir()
    words = [*map(str, ["--directory", place.path / "out", *agent[:2], place.path / "agent.py"])]
    code = "import os, sys; os.rmdir(os.getcwd()); os.execv(sys.argv[1], sys.argv[1:])"
    done = subprocess.run(
        [sys.executable, "-c", code, *place.program(*words)],
        cwd=place.path / "gone",
        env=place.environment,
        capture_output=True,
        text=True,
        check=False,
    )

    [ours] = (place.path / "out").glob("*.json")
    assert (done.returncode, done.stdout, ending(ours)["calls"]) == (0, "done\n", 1)
    assert done.stderr == f"trace-recorder: recorded 1 run, 1 LLM call: {ours}\n"
