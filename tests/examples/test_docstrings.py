"""The examples in the docstrings of the functions and classes that users call first run unchanged."""

from __future__ import annotations

import doctest
import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

import openai
import pytest

import trace_recorder
from tests.provider import CHAT, plain, serving

MESSAGES = [{"role": "user", "content": "How many files are here?"}]
NAMES = (
    "TrajectoryRecorder",
    *(f"TrajectoryRecorder.{method}" for method in ("start", "record_llm_interaction", "record_agent_step", "step")),
    *(f"TrajectoryRecorder.{method}" for method in ("tool", "wrap", "reward", "annotate", "finalize")),
    *("wrap", "instrument", "agent", "step", "tool", "load", "load_all", "open_index", "diff", "validate", "display"),
    *("to_dataframe", "to_arrow", "read_runs", "replay", "fork", "otlp"),
)
NEEDED = {
    "display": ("IPython",),
    "otlp": ("opentelemetry.sdk",),
    "read_runs": ("ray",),
    "to_arrow": ("pyarrow",),
    "to_dataframe": ("polars",),
}
"""The packages without which an example is only parsed."""


class _Checker(doctest.OutputChecker):
    """Compares the output of a line if the docstring shows one."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return not want or super().check_output(want, got, optionflags)


def run_my_agent(client: openai.OpenAI, question: str = MESSAGES[0]["content"]) -> str | None:
    reply = client.chat.completions.create(model="gpt-4o-mini", messages=[{"role": "user", "content": question}])
    return reply.choices[0].message.content


def named(name: str) -> Callable[..., object]:
    """Return a public function, class or method."""
    value: object = trace_recorder
    for part in name.split("."):
        value = getattr(value, part)
    return value  # type: ignore[return-value]


@pytest.fixture(autouse=True)
def _two_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Record two runs of one call, and keep a provider that answers."""
    monkeypatch.chdir(tmp_path)
    Path("trajectories").mkdir()
    with serving(plain(CHAT)) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        for name, task in (("run", "count the files"), ("other", "count the files again")):
            with trace_recorder.TrajectoryRecorder(f"trajectories/{name}.json", task=task) as recorder:
                with openai.OpenAI() as client:
                    run_my_agent(recorder.wrap(client), task if name == "other" else MESSAGES[0]["content"])
        yield


@pytest.mark.parametrize("name", NAMES)
def test_the_example_of_a_docstring_runs(name: str) -> None:
    """An example does not raise, and prints what the docstring shows."""
    namespace = {one: getattr(trace_recorder, one) for one in trace_recorder.__all__}
    clients = ExitStack()
    namespace |= {
        "OpenAI": lambda **options: clients.enter_context(openai.OpenAI(**options)),
        "messages": MESSAGES,
        "run_my_agent": run_my_agent,
    }
    text = inspect.getdoc(named(name)) or ""
    test = doctest.DocTestParser().get_doctest(text, namespace, name, None, None)
    assert test.examples

    if all(find_spec(package.partition(".")[0]) and find_spec(package) for package in NEEDED.get(name, ())):
        reports: list[str] = []
        with clients:
            results = doctest.DocTestRunner(_Checker()).run(test, out=reports.append)
        assert "".join(reports) == ""
        assert results.failed == 0
    else:
        compile("".join(example.source for example in test.examples), name, "exec")
