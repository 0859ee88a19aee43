"""`trace-recorder run`: unmodified agents as programs; their files, streams, signals and exit codes."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.agents import Done, Place, ending
from tests.journals import records_of
from tests.processes import ROOT
from trace_recorder import load


def test_an_agent_is_recorded_without_changes(place: Place) -> None:
    """An agent with the OpenAI SDK is recorded with its task. The agent gets its own streams and arguments."""
    place.agent(
        """
        import openai
        print(sys.stdin.read(), sys.argv[1:], "sitecustomize" in str(sys.path), os.path.basename(sys.path[0]))
        print("aside", file=sys.stderr)
        with openai.OpenAI() as client:
            print(client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hello"}]).id)
        """
    )
    command = ["--quiet", "--task", "say hello", "python", "agent.py", "--task", "its own"]
    environment = {**place.environment, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        place.program(*command),
        input="typed",
        cwd=place.path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    [document] = place.files()
    printed = f"typed ['--task', 'its own'] False {place.path.name}\nchatcmpl-1\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, printed, "aside\n")
    assert ending(document) == {"status": "completed", "success": None, "error": None, "exit_code": 0, "calls": 1}
    trajectory = load(document)
    assert (trajectory.task, trajectory.llm_interactions[0].api) == ("say hello", "openai-chat")
    assert trajectory.metadata == {"command": ["python", "agent.py", "--task", "its own"]}


@pytest.mark.parametrize(
    ("code", "exit_code", "status", "error"),
    [
        ("call(); raise ValueError('no')", 1, "failed", "ValueError"),
        ("call(); sys.exit(3)", 3, "failed", "SystemExit"),
        ("call(); os._exit(0)", 0, "completed", None),
        ("call(); sys.last_value = ValueError('of a debugger')", 0, "completed", None),
        ("call(); sys.exit(143)", 143, "interrupted", None),
    ],
)
def test_the_end_of_an_agent_is_recorded(code: str, exit_code: int, status: str, error: str, place: Place) -> None:
    """The exit code is passed on, and recorded with the status and the uncaught exception."""
    done = place.run(*place.agent(code))

    [document] = place.files()
    assert (done.returncode, "unrecorded" in done.stderr) == (exit_code, False)
    assert ending(document) == {
        "status": status,
        "success": False if status == "failed" else None,
        "error": error,
        "exit_code": exit_code,
        "calls": 1,
    }


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP", "SIGKILL"])
def test_a_signal_reaches_the_agent_and_its_waiter(name: str, place: Place) -> None:
    """A signal to the command ends the agent, and then the command by the same signal. The run is recorded as
    interrupted.
    """
    waiting = 'import time; call(); print("ready", flush=True); time.sleep(300)'
    number = signal.Signals[name]
    if signal.getsignal(number) is signal.SIG_IGN:
        pytest.skip("this process was started with the signal ignored, as by nohup, and so are those that it starts")
    if name == "SIGKILL":  # from here on the agent exists and can get the signal
        waiting = f'call(); print("ready", flush=True); os.kill(os.getpid(), {number})'
    started = place.start(*place.agent(waiting))
    if name != "SIGKILL":
        started.send_signal(number)
    _, errors = started.communicate(timeout=120)

    [document] = place.files()
    assert started.returncode == -number
    assert ("KeyboardInterrupt" in errors, errors.count("Traceback")) == ((True, 1) if name == "SIGINT" else (False, 0))
    assert ending(document) == {
        "status": "interrupted",
        "success": None,
        "error": None,
        "exit_code": 128 + number,
        "calls": 1,
    }


def test_an_agent_that_handles_a_signal_goes_on(place: Place) -> None:
    """An agent that handles a signal goes on, and receives the signal once."""
    code = """
    import signal, time
    heard = []
    signal.signal(signal.SIGTERM, lambda *_: heard.append(1))
    call()
    print("ready", flush=True)
    while not heard:
        time.sleep(0.01)
    sys.stdin.readline()
    sys.exit(10 + len(heard))
    """
    started = place.start(*place.agent(code))
    started.send_signal(signal.SIGTERM)
    started.communicate("go on\n", timeout=120)

    assert (started.returncode, ending(place.files()[0])["exit_code"]) == (11, 11)


def test_ctrl_c_at_a_terminal_is_received_once(place: Place) -> None:
    """The agent receives Ctrl-C from the terminal, and not a second time from the command."""
    code = """
    import signal, time
    heard = []
    signal.signal(signal.SIGINT, lambda *_: heard.append(1))
    print("ready", flush=True)
    while not heard:
        time.sleep(0.01)
    time.sleep(0.3)
    sys.exit(10 + len(heard))
    """
    command = place.program(*place.agent(code))
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(place.path)
        os.execve(command[0], command, place.environment)
    with os.fdopen(terminal, "r+b", buffering=0) as screen:
        while b"ready" not in screen.readline():
            pass
        screen.write(b"\x03")
        _, status = os.waitpid(pid, 0)

    assert os.waitstatus_to_exitcode(status) == 11


CHILDREN = """
import subprocess
code = "import runpy, sys; sys.argv = ['x']; runpy.run_path('caller.py', run_name='__main__')"

if __name__ == "__main__":
    if sys.argv[1] == "after":
        call()
    subprocess.run([sys.executable, "-c", code], check=True)
    subprocess.run([sys.executable, "-c", "print('no call')"], check=True)
"""


@pytest.mark.parametrize("first", ["after", "never"])
def test_children_have_files_of_their_own(first: str, place: Place) -> None:
    """Every Python process that makes a call writes its own file, which is linked to the file of its parent, if the
    parent has one.
    """
    place.agent("call()", "caller.py")
    command = place.agent(CHILDREN)
    done = place.run("--quiet", "--trajectory-file", "trajectories/run.json", *command, first)

    documents = place.files()
    parents = {path.name: records_of(path)[0].data.get("parent") for path in documents}
    linked = load(place.path / "trajectories/run.json").trajectory_id if first == "after" else None
    others = [parent for name, parent in parents.items() if name != "run.json"]
    assert (done.returncode, done.stdout, done.stderr) == (0, "no call\n", "")
    assert (parents.pop("run.json"), others) == (None, [linked] if linked else [])
    assert {load(path).status for path in documents} == {"completed"}
    assert [name for name in parents if not name.startswith("run.") or name.count(".") != 2] == []


def test_forked_children_have_files_of_their_own(place: Place) -> None:
    """A forked child that makes a call writes a file that is linked to its parent's file. The parent's file goes on."""
    code = """
    call()
    if os.fork() == 0:
        call()
        sys.exit()
    os.wait()
    call()
    """
    place.run("--trajectory-file", "trajectories/run.json", *place.agent(code))

    calls = {path.name: ending(path)["calls"] for path in place.files()}
    child = records_of(place.path / "trajectories/run.1.json")[0].data["parent"]
    assert calls == {"run.json": 2, "run.1.json": 1}
    assert child == load(place.path / "trajectories/run.json").trajectory_id


WORKERS = """
    import multiprocessing

    def work(number):
        call()
        if number == 1:
            raise ValueError("no")
        sys.exit(number)

    if __name__ == "__main__":
        context = multiprocessing.get_context(sys.argv[1])
        workers = [context.Process(target=work, args=[number]) for number in range(3)]
        [worker.start() for worker in workers]
        [worker.join() for worker in workers]
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_the_end_of_multiprocessing_workers_is_recorded(method: str, place: Place) -> None:
    """A worker of either kind is completed, or failed with its exception.

    Since Python 3.13 only its exit code is known.
    """
    raised = "ValueError" if sys.version_info < (3, 13) else "SystemExit"
    place.run(*place.agent(WORKERS), method)

    ended = [ending(path) for path in place.files()]
    assert sorted((one["status"], str(one["error"]), one["calls"]) for one in ended) == [
        ("completed", "None", 1),
        ("failed", "SystemExit", 1),
        ("failed", raised, 1),
    ]


def test_a_process_without_calls_leaves_nothing(place: Place) -> None:
    """An agent that calls no model leaves no file and no directory."""
    done = place.run("--quiet", *place.agent("sys.exit(4)"))

    assert (done.returncode, done.stderr, list(place.path.iterdir())) == (4, "", [place.path / "agent.py"])


def test_a_recorder_of_the_agent_s_own_comes_first(place: Place) -> None:
    """The agent's own recorder records the clients that it wraps.

    Our recorder records all other calls, so each call is recorded once.
    """
    code = """
    from trace_recorder import TrajectoryRecorder
    with TrajectoryRecorder("own.json"):
        call()
    call()
    """
    place.run(*place.agent(code))

    [ours] = place.files()
    assert (len(load(place.path / "own.json").llm_interactions), ending(ours)["calls"]) == (1, 1)


@pytest.mark.parametrize("form", ["module", "script", "shell"])
def test_programs_are_recorded_however_they_are_started(form: str, place: Place) -> None:
    """A module, a console script of a directory on PATH, and a shell around Python are recorded."""
    place.agent("call()", "agent.py")
    script = place.path / "my-agent"
    script.write_text(f"#!{sys.executable}\nimport runpy\nrunpy.run_path('agent.py')\n")
    script.chmod(0o755)
    ways = {
        "module": ["--", sys.executable, "-m", "agent"],
        "script": ["--directory", "trajectories", "my-agent"],
        "shell": ["--", "sh", "-c", f"{sys.executable} agent.py; exit 5"],
    }
    path = f"{place.path}{os.pathsep}{os.environ['PATH']}"
    done = place.run("--quiet", *ways[form], PATH=path)

    assert (done.returncode, done.stderr) == (5 if form == "shell" else 0, "")
    assert [load(file).status for file in place.files()] == ["completed"]


def test_the_user_s_own_sitecustomize_is_run(place: Place) -> None:
    """A sitecustomize on PYTHONPATH is run, and `import sitecustomize` returns that module."""
    (place.path / "sitecustomize.py").write_text(
        "import sys\nmark = 7\nif 'agent.py' in sys.orig_argv: print('theirs')\n"
    )
    path = os.pathsep.join([str(place.path), str(ROOT)])
    done = place.run(
        "--quiet",
        *place.agent("import sitecustomize; call(); sys.exit(sitecustomize.mark)"),
        PYTHONPATH=path,
    )

    assert (done.returncode, done.stdout, done.stderr) == (7, "theirs\n", "")
    assert len(place.files()) == 1


def test_an_agent_in_another_environment_is_recorded(place: Place) -> None:
    """The agent is recorded in an environment that has an HTTP library but not this package."""
    venv.create(place.path / "bare", with_pip=False)
    libraries = place.path / "libraries"
    libraries.mkdir()
    installed = Path(sysconfig.get_path("purelib"))
    for name in ("httpx", "httpcore", "h11", "anyio", "idna", "certifi", "sniffio", "typing_extensions.py"):
        if (installed / name).exists():
            (libraries / name).symlink_to(installed / name)
    place.agent("call(); print([path for path in sys.path if 'trace_recorder' in path])")
    done = place.run("--quiet", "bare/bin/python", "agent.py", PYTHONPATH=str(libraries))

    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")
    assert [ending(file)["calls"] for file in place.files()] == [1]


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ([], 2, "there is no command"),
        (["--"], 2, "there is no command"),
        (["--", "no-such-command"], 127, "command not found: no-such-command"),
        (["./not-executable"], 126, "./not-executable cannot be run: Permission denied"),
        (["./no-program"], 126, "./no-program cannot be run: Exec format error"),
        (["--no-such-option", "x"], 2, "No such option"),
    ],
)
def test_a_command_that_cannot_be_run_is_reported(command: list[str], code: int, message: str, place: Place) -> None:
    """The message is one sentence, and the exit code is that of a shell."""
    (place.path / "not-executable").write_text("")
    (place.path / "no-program").write_text("neither")
    (place.path / "no-program").chmod(0o755)
    done = place.run(*command)

    assert (done.returncode, message in done.stderr, "Traceback" in done.stderr) == (code, True, False)


def test_recording_that_fails_changes_nothing(place: Place) -> None:
    """If no file can be written, the agent runs as without a recorder, and stderr names the failure."""
    (place.path / "file").write_text("")
    done = place.run("--directory", "file/inside", *place.agent("call(); print('done')"))

    assert (done.returncode, done.stdout, "Traceback" in done.stdout) == (0, "done\n", False)
    assert "the agent runs unrecorded (logged once)" in done.stderr
    assert done.stderr.splitlines()[-1].startswith(
        "trace-recorder: nothing was recorded: the files could not be created"
    )


def test_disabled_recording_leaves_no_file(place: Place) -> None:
    """With TRACE_RECORDER_DISABLED the agent runs and no file is written."""
    done = place.run("--quiet", *place.agent("call(); print('done')"), TRACE_RECORDER_DISABLED="1")

    assert (done, list(place.path.iterdir())) == (Done(0, "done\n", ""), [place.path / "agent.py"])
