"""The small model behind the local provider.

It decides its next action from the conversation so far. It is a pure function: no clock, no counter, no wire format.
The same conversation always gets the same answer, in every dialect. It knows one task, to fix small Python projects
whose tests fail, and it looks at tool results: a listing, test output, the content of files.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

NEEDED_TOOLS = frozenset({"list_files", "read_file", "write_file", "run_python"})


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call of the model."""

    name: str
    arguments: dict[str, str]


@dataclass(frozen=True, slots=True)
class Seen:
    """An earlier call in the conversation, with its result."""

    call: Call
    result: str


@dataclass(frozen=True, slots=True)
class Conversation:
    """The model's view: the offered tools, and every call so far with its result, in order."""

    tools: frozenset[str]
    seen: tuple[Seen, ...] = ()


@dataclass(frozen=True, slots=True)
class Action:
    """An answer of the model: its thinking, its words, and its tool calls. The last answer has no calls."""

    reasoning: str
    text: str
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True, slots=True)
class Repair:
    """A mistake that the model recognises."""

    why: str
    wrong: re.Pattern[str]
    right: str


REPAIRS = (
    Repair("the loop runs one past the end", re.compile(r"range\(len\((\w+)\) \+ 1\)"), r"range(len(\1))"),
    Repair(
        "it returns the amount taken off, not what is left to pay",
        re.compile(r"return (\w+) \* (\w+) / 100\b"),
        r"return \1 - \1 * \2 / 100",
    ),
)


def decide(conversation: Conversation) -> Action:
    """Return the next action.

    The model lists the files, runs the tests, reads the files that a failure names, fixes them, runs the tests again,
    and reports.
    """
    if not conversation.tools >= NEEDED_TOOLS:
        return Action("No tools are on offer.", "I mend Python projects, and for that I need tools to look and write.")
    listing = _last_result(conversation, "list_files")
    if listing is None:
        return _look()
    names = listing.splitlines()
    output = _fresh_test_output(conversation)
    if output is None:
        return _run_tests(names, again=_last_result(conversation, "run_python") is not None)
    if output.startswith("exit code 0"):
        return _report(conversation)
    return _work_on_failure(output, names, _contents(conversation))


def _look() -> Action:
    return Action(
        "I know nothing of this project yet; its files come first.",
        "I will look at what is there.",
        (Call("list_files", {"directory": "."}),),
    )


def _run_tests(names: list[str], *, again: bool) -> Action:
    tests = [name for name in names if name.startswith("test_")]
    if not tests:
        return Action("Nothing here is named test_*.", "I found no tests to run, so I cannot tell what is wrong.")
    text = "That should help; I will run the tests again." if again else f"Now to see {tests[0]} fail."
    return Action("Only the tests can say whether the code is right.", text, (Call("run_python", {"path": tests[0]}),))


def _work_on_failure(output: str, names: list[str], contents: dict[str, str]) -> Action:
    """Read the files that the failure names, and fix known mistakes. If no mistake is known, read further files."""
    blamed = [name for name in re.findall(r'File "([^"]+)"', output) if name in names]
    modules = re.findall(r"^from (\w+) import", "\n".join(contents.values()), re.MULTILINE)
    unread = [name for name in dict.fromkeys(blamed) if name not in contents]
    if unread:
        return _read(unread, "The failure names {}.")
    for path, content in contents.items():
        for repair in REPAIRS:
            if repair.wrong.search(content):
                return _fix(path, content, repair)
    imported = [f"{module}.py" for module in modules]
    unread = [name for name in dict.fromkeys(imported) if name in names and name not in contents]
    if unread:
        return _read(unread, "What I have read looks right, and it uses {}.")
    return Action("I have read all there is.", "The tests still fail, and I do not see why.")


def _read(paths: list[str], reason: str) -> Action:
    listed = " and ".join(paths)
    return Action(reason.format(listed), f"I will read {listed}.", tuple(Call("read_file", {"path": p}) for p in paths))


def _fix(path: str, content: str, repair: Repair) -> Action:
    fixed = repair.wrong.sub(repair.right, content)
    return Action(
        f"In {path} I see it: {repair.why}.",
        f"I found a mistake in {path}: {repair.why}.",
        (Call("write_file", {"path": path, "content": fixed}),),
    )


def _report(conversation: Conversation) -> Action:
    written = dict.fromkeys(s.call.arguments.get("path", "?") for s in conversation.seen if s.call.name == "write_file")
    if not written:
        return Action("Nothing failed.", "All tests pass as they are; I changed nothing.")
    return Action("The tests pass; there is nothing left to do.", f"All tests pass. I mended {' and '.join(written)}.")


def _last_result(conversation: Conversation, tool: str) -> str | None:
    return next((seen.result for seen in reversed(conversation.seen) if seen.call.name == tool), None)


def _fresh_test_output(conversation: Conversation) -> str | None:
    """Return the output of the last test run, unless a file was written since."""
    for seen in reversed(conversation.seen):
        if seen.call.name == "write_file":
            return None
        if seen.call.name == "run_python":
            return seen.result
    return None


def _contents(conversation: Conversation) -> dict[str, str]:
    """Return each file that was read or written, with its newest content."""
    contents: dict[str, str] = {}
    for seen in conversation.seen:
        path = seen.call.arguments.get("path", "")
        if seen.call.name == "read_file":
            contents[path] = seen.result
        elif seen.call.name == "write_file":
            contents[path] = seen.call.arguments.get("content", "")
    return contents
