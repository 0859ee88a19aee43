"""`trace-recorder score`: functions that judge saved runs, and their recorded rewards."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.invoking import invoke, recorded
from trace_recorder import TrajectoryRecorder, load

MINE = """
def length(trajectory, per=1):
    return len(trajectory.llm_interactions[0].response.content) / per

def undecided(trajectory):
    return None

def ranked(traces, best=1.0):
    print(f"a batch of {len(traces)}")
    longest = max(len(trace[0]["model_completion"]) for trace in traces)
    return [best if len(trace[0]["model_completion"]) == longest else None for trace in traces]

def torn(traces):
    raise RuntimeError("no judge today")

def broken(trajectory):
    raise RuntimeError("no judge today")
"""


def line_of(words: str, number: int = 1) -> int:
    """Return the number of the line that has these words for the nth time in the file of functions."""
    return [at for at, line in enumerate(MINE.splitlines(), start=1) if words in line][number - 1]


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A file with reward functions."""
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    return path


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Two runs that have ended."""
    directory = tmp_path / "runs"
    directory.mkdir()
    recorded(directory / "a.json", "four")
    recorded(directory / "b.json", "sixsix")
    return directory


def rewards(directory: Path) -> list[list[tuple[str, float, float]]]:
    """Return the rewards of each run: name, value, weight."""
    return [
        [(reward.name, reward.value, reward.weight) for reward in load(path).rewards]
        for path in sorted(directory.glob("*.json"))
    ]


def test_each_run_gets_its_reward(runs: Path, mine: Path) -> None:
    """The reward is in the journal and in the document of each run, under the function's name."""
    result = invoke("score", runs, "--reward", f"{mine}:length")

    assert result.exit_code == 0
    assert result.stdout == (
        f"{runs / 'a.json'}: length 4\n{runs / 'b.json'}: length 6\nscored 2 of 2 runs: mean length 5, from 4 to 6\n"
    )
    assert rewards(runs) == [[("length", 4.0, 1.0)], [("length", 6.0, 1.0)]]


def test_a_reward_may_have_a_name_a_weight_and_variables(runs: Path, mine: Path) -> None:
    """A reward may have its own name and weight. The values of --set are passed to the function by name."""
    invoke("score", runs, "--reward", f"{mine}:length", "--name", "short", "--weight", "0.5", "--set", "per=2")

    assert rewards(runs) == [[("short", 2.0, 0.5)], [("short", 3.0, 0.5)]]


def test_each_of_several_functions_gives_its_reward(runs: Path, mine: Path) -> None:
    """All functions score all runs, also a function of a whole batch, and each has a summary."""
    done = invoke("score", str(runs), "--reward", f"{mine}:length", "--reward", f"{mine}:ranked", "--weight", "0.5")

    assert rewards(runs) == [[("length", 4.0, 0.5)], [("length", 6.0, 0.5), ("ranked", 1.0, 0.5)]]
    assert [line for line in done.stdout.splitlines() if " of 2 runs" in line] == [
        "scored 2 of 2 runs: mean length 5, from 4 to 6",
        "scored 1 of 2 runs, 1 without a reward: mean ranked 1",
    ]


@pytest.mark.parametrize("more", [["--reward", "other.py:length"], ["--reward", "other.py:b", "--name", "mine"]])
def test_two_rewards_of_one_name_are_refused(more: list[str], runs: Path, mine: Path) -> None:
    """The second would replace the first. Nothing is scored."""
    done = invoke("score", str(runs), "--reward", f"{mine}:length", *more)

    assert (done.exit_code, "would both give the reward" in done.stderr, rewards(runs)) == (2, True, [[], []])


def test_a_run_is_scored_once_unless_asked(runs: Path, mine: Path) -> None:
    """A second `score` over the same directory adds no reward. With --again it does."""
    invoke("score", runs / "a.json", "--reward", f"{mine}:length")
    result = invoke("score", runs, "--reward", f"{mine}:length")
    assert "a.json: has this reward already" in result.stdout
    assert [len(own) for own in rewards(runs)] == [1, 1]

    invoke("score", runs, "--reward", f"{mine}:length", "--again")
    assert [len(own) for own in rewards(runs)] == [2, 2]


def test_a_dry_run_writes_nothing(runs: Path, mine: Path) -> None:
    """A dry run, and a function that returns no reward, change no file."""
    before = {path: path.read_bytes() for path in runs.iterdir()}

    assert "a.json: length 4" in invoke("score", runs, "--reward", f"{mine}:length", "--dry-run").stdout
    assert "a.json: no reward" in invoke("score", runs, "--reward", f"{mine}:undecided").stdout
    assert {path: path.read_bytes() for path in runs.iterdir()} == before


def test_a_failing_function_is_reported_for_each_run(runs: Path, mine: Path) -> None:
    """The error names the run, the file and the line. Nothing is written, and the exit code is 1."""
    result = invoke("score", runs, "--reward", f"{mine}:broken")

    where = f"RuntimeError: no judge today ({mine}, line {line_of('raise', 2)}, in broken)"
    assert result.exit_code == 1
    assert result.stderr == "".join(
        f"trace-recorder: {runs / name} cannot be scored: {where}\n" for name in ("a.json", "b.json")
    )
    assert result.stdout == "scored 0 of 2 runs, 2 could not be\n"
    assert rewards(runs) == [[], []]


def test_an_unfinished_run_is_refused_and_the_others_are_scored(runs: Path, mine: Path) -> None:
    """An unfinished run gets no reward, because its journal belongs to the recorder until the run ends."""
    recorder = TrajectoryRecorder(runs / "c.json")
    recorder.start()
    recorder.record_llm_interaction([], {"content": "x"}, "openai", "m")
    result = invoke("score", runs, "--reward", f"{mine}:length")
    recorder.finalize()

    assert (result.exit_code, "still being written" in result.stderr) == (1, True)
    assert [len(own) for own in rewards(runs)] == [1, 1, 0]


def test_an_invalid_function_is_reported_before_any_run_is_read(runs: Path) -> None:
    """An unknown or invalid function is reported in one sentence before a run is read."""
    result = invoke("score", runs, "--reward", "no_such_module:f")

    assert (result.exit_code, "no module no_such_module" in result.stderr) == (1, True)


def test_a_batch_is_scored_by_one_call(runs: Path, mine: Path) -> None:
    """A function `f(traces)`, the form of ToolBrain's ranking judges, is called once for all runs. Each run gets its
    own reward.
    """
    result = invoke("score", runs, "--reward", f"{mine}:ranked", "--set", "best=0.5")

    assert result.exit_code == 0
    assert result.stdout == (
        f"a batch of 2\n{runs / 'a.json'}: no reward\n{runs / 'b.json'}: ranked 0.5\n"
        "scored 1 of 2 runs, 1 without a reward: mean ranked 0.5\n"
    )
    assert rewards(runs) == [[], [("ranked", 0.5, 1.0)]]


def test_a_batch_has_only_ended_runs_without_the_reward(runs: Path, mine: Path) -> None:
    """The other runs are reported. If no run is left, the function is not called."""
    invoke("score", runs / "b.json", "--reward", f"{mine}:ranked")
    recorder = TrajectoryRecorder(runs / "c.json")
    recorder.start()
    first = invoke("score", runs, "--reward", f"{mine}:ranked")
    recorder.finalize()
    again = invoke("score", runs / "b.json", "--reward", f"{mine}:ranked")

    assert (first.exit_code, "c.json is still being written" in first.stderr) == (1, True)
    assert first.stdout == (
        f"{runs / 'b.json'}: has this reward already (--again scores it again)\n"
        f"a batch of 1\n{runs / 'a.json'}: ranked 1\n"
        "scored 1 of 3 runs, 1 scored before, 1 could not be: mean ranked 1\n"
    )
    assert "a batch" not in again.stdout


def test_a_batch_that_fails_writes_nothing(runs: Path, mine: Path) -> None:
    """A failure is reported once for the whole batch, and no reward is written."""
    result = invoke("score", runs, "--reward", f"{mine}:torn")

    where = f"RuntimeError: no judge today ({mine}, line {line_of('raise', 1)}, in torn)"
    assert (result.exit_code, result.stderr) == (
        1,
        f"trace-recorder: the runs cannot be scored: {where}\n",
    )
    assert rewards(runs) == [[], []]


# ── functions that are the user's ────────────────────────────────────────────────────────────────────────────────────

DEEP = """
import functools, json

def loud(function):
    @functools.wraps(function)
    def around(*given, **named):
        return function(*given, **named)
    return around

def helper(text):
    return json.loads(text)

@loud
def parsed(trajectory):
    if "four" in trajectory.llm_interactions[0].response.content:
        return helper("{")
    return 1

def nowhere(trajectory):
    return float("nan")

def told(trajectory):
    return "no number"

def leaving(trajectory):
    raise SystemExit(7)
"""


@pytest.mark.parametrize(
    ("function", "line", "name", "what"),
    [
        ("parsed", "return helper", "parsed", "JSONDecodeError: Expecting property name"),
        ("nowhere", "def nowhere", "nowhere", "ValueError: the reward is nan"),
        ("told", "def told", "told", "ValueError: could not convert string to float: 'no number'"),
        ("leaving", "raise SystemExit", "leaving", "it tries to end the program"),
    ],
)
def test_an_error_is_reported_with_its_line(
    function: str, line: str, name: str, what: str, runs: Path, tmp_path: Path
) -> None:
    """The reported line is in the user's own function, not in its decorators or in a function that it called."""
    path = tmp_path / "deep.py"
    path.write_text(DEEP)
    number = next(at for at, text in enumerate(DEEP.splitlines(), start=1) if line in text)
    result = invoke("score", runs, "--reward", f"{path}:{function}")

    first, *others = result.stderr.splitlines()
    assert (result.exit_code, what in first) == (1, True)
    assert first.endswith(f"({path}, line {number}, in {name})")
    assert [(len(others), len(own)) for own in rewards(runs)] == (
        [(0, 0), (0, 1)] if function == "parsed" else [(1, 0), (1, 0)]
    )


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("def f(:\n    pass\n", "line 1"),
        ("import no_such_thing\ndef f(trace): return 1\n", "there is no module no_such_thing"),
        ("x = 1\nraise RuntimeError('not today')\n", "RuntimeError: not today"),
        ("1 / 0\n", "line 1"),
        ("def f(): return 1\n", "f takes no run"),
        ("f = max\n", "f"),
    ],
)
@pytest.mark.parametrize("form", ["file", "module"])
def test_a_file_that_cannot_be_imported_is_one_sentence(
    form: str, source: str, what: str, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sentence has the error with its file and line, and no traceback."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    name = f"broken_{abs(hash(source))}"
    (tmp_path / f"{name}.py").write_text(source)
    result = invoke("score", runs, "--reward", f"{name}.py:f" if form == "file" else f"{name}:f")

    assert (result.exit_code, isinstance(result.exception, SystemExit), result.stderr.count("\n")) == (1, True, 1)
    assert what in result.stderr


TEXT = """
def acted(trace):
    return sum(turn["parsed_completion"]["tool_code"] is not None for turn in trace)

def acted_of_all(traces):
    return [acted(trace) for trace in traces]
"""


@pytest.mark.parametrize("function", ["acted", "acted_of_all"])
@pytest.mark.parametrize(("parser", "count"), [(None, 0), ("calls", 0), ("code", 1), ("react", 0)])
def test_the_turns_of_a_text_agent_are_parsed_as_asked(
    function: str, parser: str | None, count: int, tmp_path: Path
) -> None:
    """`score --parser` parses the turns as `export` and `show --turns` do."""
    (tmp_path / "mine.py").write_text(TEXT)
    run = recorded(tmp_path / "run.json", "Thought: I add.\n<code>\nadd(5, 7)\n</code>")
    options = [] if parser is None else ["--parser", parser]
    result = invoke("score", run, "--reward", f"{tmp_path / 'mine.py'}:{function}", *options)

    assert (result.exit_code, [reward.value for reward in load(run).rewards]) == (0, [count])


def test_an_unknown_parser_is_a_misuse(runs: Path, mine: Path) -> None:
    """The message lists the known parsers, before a file is read."""
    result = invoke("score", runs, "--reward", f"{mine}:length", "--parser", "xml")

    assert (result.exit_code, "not one of calls, code, react" in result.stderr, rewards(runs)) == (2, True, [[], []])


def test_a_variable_may_be_called_parser(tmp_path: Path) -> None:
    """The value of `--set parser=…` is passed to the function, and does not set our option."""
    (tmp_path / "mine.py").write_text("def named(trajectory, parser, function):\n    return parser + function\n")
    run = recorded(tmp_path / "run.json")
    result = invoke(
        *("score", run, "--reward", f"{tmp_path / 'mine.py'}:named", "--set", "parser=2", "--set", "function=3")
    )

    assert (result.exit_code, [reward.value for reward in load(run).rewards]) == (0, [5])


def test_export_takes_a_parser_by_the_same_name(tmp_path: Path) -> None:
    """`export` accepts `--parser` for formats whose `--form` is a parser."""
    run = recorded(tmp_path / "run.json", "Thought: I add.\n<code>\nadd(5, 7)\n</code>")
    for option in ("--form", "--parser"):
        invoke("export", run, "-f", "toolbrain", option, "code", "-o", tmp_path / f"{option[2:]}.json")

    assert (tmp_path / "parser.json").read_bytes() == (tmp_path / "form.json").read_bytes()
    assert json.loads((tmp_path / "parser.json").read_text())[0]["parsed_completion"]["tool_code"] == "add(5, 7)"


# ── what became of it ────────────────────────────────────────────────────────────────────────────────────────────────


def test_rewards_are_listed(runs: Path, mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`list` has a column of rewards for the whole run: the last reward of each name."""
    monkeypatch.delenv("COLUMNS", raising=False)
    assert "rewards" not in invoke("list", runs).stdout
    invoke("score", runs / "a.json", "--reward", f"{mine}:length")
    invoke("score", runs / "a.json", "--reward", f"{mine}:length", "--again", "--set", "per=4")
    invoke("score", runs / "a.json", "--reward", f"{mine}:length", "--name", "whole")

    titles, *rows = invoke("list", runs).stdout.splitlines()
    at = titles.index("rewards")
    assert [row[at:].strip() for row in rows] == ["length 1, whole 4", ""]
    assert [row["rewards"] for row in json.loads(invoke("list", runs, "--json").stdout)["trajectories"]] == [
        {"length": 1.0, "whole": 4.0},
        {},
    ]


def test_rewards_are_counted(runs: Path, mine: Path) -> None:
    """For each reward name, `stats` prints the number of runs, the mean and the range."""
    invoke("score", runs, "--reward", f"{mine}:length")
    invoke("score", runs / "b.json", "--reward", f"{mine}:length", "--name", "only b")

    figures = json.loads(invoke("stats", runs, "--json").stdout)
    assert figures["rewards"] == [
        {"name": "length", "runs": 2, "mean": 5.0, "least": 4.0, "most": 6.0},
        {"name": "only b", "runs": 1, "mean": 6.0, "least": 6.0, "most": 6.0},
    ]
    assert [line.split() for line in invoke("stats", runs).stdout.splitlines()[-3:]] == [
        ["reward", "runs", "mean", "least", "most"],
        ["length", "2", "5", "4", "6"],
        ["only", "b", "1", "6", "6", "6"],
    ]


def test_accuracy_covers_only_judged_runs(tmp_path: Path) -> None:
    """The accuracy leaves out runs without a recorded success. The number of judged runs is printed."""
    for number, success in enumerate((True, True, False, None, None)):
        recorded(tmp_path / "runs" / f"{number}.json", success=success)
    out = tmp_path / "rows.jsonl"
    invoke("export", tmp_path / "runs", "-f", "openai", "-o", out, "--name", "try")

    about = json.loads((tmp_path / "rows.jsonl.metadata.json").read_text())
    assert about == {"runs": 5, "accuracy": 0.6667, "accuracy_runs": 3, "name": "try"}
    assert invoke("stats", tmp_path / "runs").stdout.splitlines()[0] == (
        "runs    5 runs: 5 completed; 2 success, 1 no success: accuracy 67% of 3 judged runs"
    )
    figures = json.loads(invoke("stats", tmp_path / "runs", "--json").stdout)["runs"]
    assert (figures["accuracy"], figures["accuracy_runs"]) == (0.6667, 3)


def test_without_a_verdict_there_is_no_accuracy(tmp_path: Path) -> None:
    """If no run was judged, the accuracy is absent, and not 0."""
    recorded(tmp_path / "runs" / "a.json", success=None)

    assert invoke("stats", tmp_path / "runs").stdout.splitlines()[0] == "runs    1 run: 1 completed; none judged"
    assert "accuracy" not in json.loads(invoke("stats", tmp_path / "runs", "--json").stdout)["runs"]
