"""The demo's policy and tools: the model decides from the earlier messages."""

from __future__ import annotations

import pytest

from examples.demo import project
from examples.demo.policy import Call, Conversation, Seen, decide
from examples.demo.tools import Toolbox

TOOLS = frozenset({"list_files", "read_file", "write_file", "run_python"})


def seen(name, result, **arguments):
    return Seen(Call(name, arguments), result)


LISTED = seen("list_files", "basket.py\ntest_basket.py", directory=".")
FAILED = seen("run_python", 'exit code 1\n  File "test_basket.py"\n  File "basket.py"', path="test_basket.py")
PASSED = seen("run_python", "exit code 0\nOK", path="test_basket.py")
READ_TESTS = seen("read_file", "from basket import subtotal", path="test_basket.py")
READ_WRONG = seen("read_file", "range(len(lines) + 1)", path="basket.py")
READ_RIGHT = seen("read_file", "range(len(lines))", path="basket.py")
WROTE = seen("write_file", "wrote 17 characters", path="basket.py", content="range(len(lines))")

LOOK, TEST = Call("list_files", {"directory": "."}), Call("run_python", {"path": "test_basket.py"})
READS = [Call("read_file", {"path": path}) for path in ("test_basket.py", "basket.py")]
DECISIONS = {
    "nothing seen": ([], [LOOK]),
    "listed": ([LISTED], [TEST]),
    "failed": ([LISTED, FAILED], READS),
    "one was read": ([LISTED, FAILED, READ_TESTS], READS[1:]),
    "both were read": ([LISTED, FAILED, READ_TESTS, READ_WRONG], [WROTE.call]),
    "written": ([LISTED, FAILED, READ_TESTS, READ_WRONG, WROTE], [TEST]),
    "passed": ([LISTED, PASSED], []),
    "at a loss": ([LISTED, FAILED, READ_TESTS, READ_RIGHT], []),
    "no tests": ([seen("list_files", "basket.py", directory=".")], []),
}


@pytest.mark.parametrize(("history", "calls"), DECISIONS.values(), ids=DECISIONS)
def test_the_model_decides_from_the_conversation(history, calls):
    """The model always gives the same answer to the same conversation, by the results in it."""
    assert list(decide(Conversation(TOOLS, tuple(history))).calls) == calls


def test_the_model_calls_only_offered_tools():
    """If the tools that the model needs are not offered, its answer says so."""
    assert decide(Conversation(TOOLS - {"write_file"}, (LISTED,))).calls == ()


IMPOSSIBLE = [
    ("read_file", {"path": "nul\0"}),
    ("read_file", {"path": "../outside.py"}),
    ("read_file", {}),
    ("write_file", {"path": "new.py", "content": 5}),
    ("run_shell", {"command": "ls"}),
]


@pytest.mark.parametrize(("name", "arguments"), IMPOSSIBLE)
def test_a_failed_tool_has_a_result(tmp_path, name, arguments):
    """The result of a failed tool is a text that is marked as a failure."""
    assert Toolbox(tmp_path).run(name, arguments).failed


def test_the_project_s_tests_fail_until_it_is_repaired(tmp_path):
    """The demo's project does not pass its tests before the repair, even if its test file is emptied."""
    project.create(tmp_path)
    (tmp_path / "test_basket.py").write_text("")

    assert not project.tests_pass(tmp_path)
