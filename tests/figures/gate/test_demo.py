"""The gate on the demo's agent: equal runs agree, and each change of the agent or its model is caught, on its line."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest

from examples.demo import local_provider
from examples.demo.__main__ import FORMS
from examples.demo.local_provider import LocalProvider
from examples.demo.loops import openai_chat
from examples.demo.policy import Action, Call, Conversation, decide
from examples.demo.runs import LOOPS, Form
from tests.cli.invoking import invoke
from tests.figures.gate.demo_agent import record_demo

RULES = '[[arguments]]\ntool = "*"\n\n[result]\ncompare = "text"\n'
"""Rules that compare everything. The default rules compare neither arguments nor the text of the result."""

EQUAL_RUNS = int(os.environ.get("TRACE_RECORDER_GATE_RUNS", "1"))
"""How many equal runs of each SDK are compared with a golden run. `nox -s gate` asks for 20 of every SDK."""
EQUAL_FORMS: list[tuple[str, Form]] = [("anthropic", "streaming"), ("ollama", "async")]
if EQUAL_RUNS > 1:
    EQUAL_FORMS = [(sdk, form) for sdk in LOOPS for form in FORMS]


@pytest.fixture(scope="module")
def provider() -> Iterator[LocalProvider]:
    with LocalProvider() as running:
        yield running


@pytest.fixture(scope="module")
def equal_runs(provider: LocalProvider, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Five runs of the unchanged agent."""
    place = tmp_path_factory.mktemp("equal")
    return [record_demo(place / f"run_{number}.json", provider) for number in range(5)]


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / "check.toml"
    path.write_text(RULES)
    return path


def test_equal_runs_agree(equal_runs: list[Path], rules: Path) -> None:
    """Twenty comparisons of equal runs find no difference, also if arguments and the result are compared."""
    compared = [
        invoke("check", golden, "--against", live, "--rules", rules) for golden, live in permutations(equal_runs, 2)
    ]

    assert [(done.exit_code, len(done.output.splitlines())) for done in compared] == [(0, 3)] * 20


@pytest.mark.parametrize(("sdk", "form"), EQUAL_FORMS)
def test_streams_and_parallel_tools_agree(
    sdk: str, form: Form, provider: LocalProvider, tmp_path: Path, rules: Path
) -> None:
    """Runs of a streaming agent agree, and runs of an agent whose tools run at once, where one answer was refused and
    sent again.
    """
    golden = record_demo(tmp_path / "golden.json", provider, sdk, form)
    live = []
    for number in range(EQUAL_RUNS):
        if number == 0 and sdk in {"openai", "anthropic"}:  # their SDKs send a refused request again
            provider.refuse_at(provider.hits + 3)
        live.append(record_demo(tmp_path / f"live_{number}.json", provider, sdk, form))

    done = invoke("check", golden, "--against", *live, "--rules", rules)

    agreeing = [f"  {path}: agrees with {golden}" for path in live]
    assert (done.exit_code, done.output.splitlines()[1:]) == (0, [*agreeing, "1 of 1 task ok"])


def reads_first(conversation: Conversation) -> Action:
    """Read the tests before they are run."""
    action = decide(conversation)
    if [call.name for call in action.calls] == ["run_python"] and len(conversation.seen) == 1:
        return replace(action, calls=(Call("read_file", {"path": "test_basket.py"}),))
    return action


def names_paths_otherwise(conversation: Conversation) -> Action:
    """Write the path of each Python file that is run as `./path`."""
    action = decide(conversation)
    return replace(action, calls=tuple(map(_with_dot, action.calls)))


def _with_dot(call: Call) -> Call:
    if call.name == "run_python":
        return Call(call.name, {"path": f"./{call.arguments['path']}"})
    return call


def reads_a_missing_file(conversation: Conversation) -> Action:
    """Also read a file that does not exist."""
    action = decide(conversation)
    if [call.arguments for call in action.calls] == [{"directory": "."}]:
        return replace(action, calls=(*action.calls, Call("read_file", {"path": "notes.md"})))
    return action


def says_more(conversation: Conversation) -> Action:
    """Answer with many more words."""
    action = decide(conversation)
    return replace(action, text=f"{action.text} {'To be sure, I say it again. ' * 40}")


ORDER = "list_files{+ read_file+} run_python[- read_file-] read_file write_file"
MISSING = "FileNotFoundError: [Errno 2] No such file or directory: "
CHANGED_MODELS: dict[str, tuple[Callable[[Conversation], Action], list[str]]] = {
    "order": (reads_first, [f"tools: step 2: another order than in the golden run: {ORDER}"]),
    "argument": (
        names_paths_otherwise,
        [
            "arguments: step 2: run_python arguments.path: {+./+}test_basket.py",
            "arguments: step 5: run_python arguments.path: {+./+}test_basket.py",
            "arguments: step 8: run_python arguments.path: {+./+}test_basket.py",
        ],
    ),
    "error": (
        reads_a_missing_file,
        [
            "tools: step 1: other calls than in the golden run: list_files{+ read_file+} run_python ",
            f"errors: step 1: read_file: {MISSING}",
        ],
    ),
    "tokens": (says_more, ["limits: tokens: "]),
}


@pytest.mark.parametrize("change", CHANGED_MODELS)
def test_a_model_that_acts_otherwise_is_caught(
    change: str, equal_runs: list[Path], provider: LocalProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another order of tools, another argument, a new error and more tokens each break a rule, and no other rule."""
    decide_otherwise, expected = CHANGED_MODELS[change]
    monkeypatch.setattr(local_provider, "decide", decide_otherwise)
    live = record_demo(tmp_path / "live.json", provider)
    (tmp_path / "check.toml").write_text('[[arguments]]\ntool = "run_python"\n')

    done = invoke("check", equal_runs[0], "--against", live, "--rules", tmp_path / "check.toml")

    lines = [line.strip() for line in done.output.splitlines() if line.startswith("    ")]
    assert (done.exit_code, len(lines)) == (1, len(expected)), done.output
    assert [line[: len(part)] for line, part in zip(lines, expected, strict=True)] == expected


def test_a_changed_prompt_is_caught(
    equal_runs: list[Path], provider: LocalProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A changed system prompt is the only difference, and is shown by word, with its step."""
    monkeypatch.setattr(openai_chat, "SYSTEM", openai_chat.SYSTEM.replace("careful", "quick"))
    live = record_demo(tmp_path / "live.json", provider)

    done = invoke("check", equal_runs[0], "--against", live)

    assert (done.exit_code, done.output.splitlines()[1:]) == (
        1,
        [
            f"  {live}: 1 difference from {equal_runs[0]}",
            "    prompts: step 1: system message: You are a[- careful-]{+ quick+} programmer. You work in one…",
            "  0 of 1 runs agree with a golden run, and 1 must",
            "0 of 1 task ok",
        ],
    )


def test_a_changed_model_is_caught(equal_runs: list[Path], provider: LocalProvider, tmp_path: Path) -> None:
    """Another model that acts in the same way is the only difference."""
    live = record_demo(tmp_path / "live.json", provider, model="other-model")

    done = invoke("check", equal_runs[0], "--against", live)

    assert done.exit_code == 1
    assert [line.strip() for line in done.output.splitlines() if line.startswith("    ")] == [
        "models: step 1: other-model, and local-model in the golden run"
    ]
