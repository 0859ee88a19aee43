"""Files of rules: every key is read, and every mistake is one sentence with its place."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from trace_recorder import RulesError
from trace_recorder.figures.gate.rules import (
    ArgumentRule,
    CountRange,
    ErrorRules,
    FigureLimits,
    Limit,
    Passing,
    ResultRules,
    Rules,
    ToolRules,
)
from trace_recorder.figures.gate.rules_file import read_rules

EVERY_KEY = r"""
pair = "order"
passing = "2 of 3"
ignore = ['/tmp/\w+']
prompts = "instructions"
models = false

[tools]
compare = "counts"
in_order = ["read", "write"]
forbidden = ["delete"]
counts = { read = "1..3", write = 2, ask = "..1", look = "1.." }

[[arguments]]
tool = "write"
pointer = "/path"
call = 2
equals = "a.py"

[[arguments]]
tool = "*"
matches = "^{"

[[arguments]]
tool = "read"
one_of = [1, { a = [true] }]

[[arguments]]
tool = "read"

[errors]
compare = false
allowed = ["^read: "]

[limits]
steps = 10
tokens = "+10%"
cost = "5.5 %"
seconds = false

[result]
compare = "text"
contains = ["done"]
matches = "!$"
"""


def test_every_key_is_read(tmp_path: Path) -> None:
    """The file has a value for each key. An empty file has the default rules."""
    (tmp_path / "check.toml").write_text(EVERY_KEY)
    (tmp_path / "empty.toml").write_text("")

    assert read_rules(tmp_path / "empty.toml") == Rules()
    assert read_rules(tmp_path / "check.toml") == Rules(
        pair="order",
        passing=Passing(2, 3),
        ignore=(re.compile(r"/tmp/\w+"),),
        tools=ToolRules(
            "counts",
            ("read", "write"),
            ("delete",),
            {"read": CountRange(1, 3), "write": CountRange(2, 2), "ask": CountRange(0, 1), "look": CountRange(1, None)},
        ),
        arguments=(
            ArgumentRule("write", "/path", 2, one_of=("a.py",)),
            ArgumentRule("*", matches=re.compile("^{")),
            ArgumentRule("read", one_of=(1, {"a": [True]})),
            ArgumentRule("read"),
        ),
        errors=ErrorRules(compare=False, allowed=(re.compile("^read: "),)),
        limits=FigureLimits(Limit(10), Limit(percent=10.0), Limit(percent=5.5, only_more=False), None),
        prompts="instructions",
        models=False,
        result=ResultRules("text", ("done",), re.compile("!$")),
    )


MISTAKES = [
    ("a = ", r"is not TOML: Invalid value \(at "),
    ("tool = 1", r"tool is not a rule; did you mean tools\?"),
    ("xyz = 1", "xyz is not a rule; there are pair, passing, "),
    ("tools = 1", "tools: 1 is not a table"),
    ('[tools]\ncompare = "ordr"', 'tools.compare: "ordr" is not one of "order", "counts", "set", "nothing"'),
    ("[tools]\ncompare = [1]", r'tools.compare: \[1\] is not one of "order"'),
    ('[tools]\nin_order = "read"', 'tools.in_order: "read" is not a list'),
    ("[tools]\nforbidden = [1]", "tools.forbidden: 1 is not a text"),
    ("[tools]\nforbiden = []", r"tools.forbiden is not a rule; did you mean forbidden\?"),
    ('[tools.counts]\nread = "many"', "tools.counts: read: 'many' is not a count such as 2, "),
    ('[tools.counts]\nread = "3..1"', "tools.counts: read: '3..1' has no number in it: 3 is more than 1"),
    ("[tools.counts]\nread = true", "tools.counts: read: True is not a count"),
    ("[arguments]\ntool = 'a'", r"arguments: write \[\[arguments\]\] before each rule"),
    ("[[arguments]]\npointer = '/a'", r'arguments\[1\] has no tool: name one, or "\*" for each tool'),
    ("[[arguments]]\ntool = 'a'\npointer = 'a'", r'arguments\[1\].pointer: "a" is not a JSON pointer: it begins with'),
    ("[[arguments]]\ntool = 'a'\ncall = 0", r"arguments\[1\].call: 0 is not the number of a call: the first is 1"),
    ("[[arguments]]\ntool = 'a'\nequals = 1\none_of = [1]", r"arguments\[1\] has equals and one_of; give one of them"),
    ("[[arguments]]\ntool = 'a'\nmatches = '('", r'arguments\[1\].matches: "\(" is not a regular expression: '),
    ("[[arguments]]\ntool = 'a'\nequals = 2025-06-12", r"arguments\[1\].equals: 2025-06-12 is not a value that an arg"),
    ("[[arguments]]\ntool = 'a'\nequals = nan", r"arguments\[1\].equals: nan is not a value"),
    ('[limits]\ntokens = "ten"', "limits.tokens: 'ten' is not a limit such as "),
    ("[limits]\ntokens = true", "limits.tokens: True is not a limit"),
    ("[limits]\nsteps = -1", "limits.steps: -1 is not a limit"),
    ("[limits]\ntime = 1", "limits.time is not a rule; there are steps, tokens, cost, seconds"),
    ('passing = "4 of 3"', "passing: '4 of 3' is not a number of runs such as 2 or "),
    ("passing = 0", "passing: 0 is not a number of runs"),
    ("models = 1", "models: 1 is not true or false"),
    ("[errors]\ncompare = 'no'", 'errors.compare: "no" is not true or false'),
]


@pytest.mark.parametrize(("text", "message"), MISTAKES)
def test_a_mistake_is_a_sentence_with_its_place(text: str, message: str, tmp_path: Path) -> None:
    """The sentence has the file, the key, and what is allowed."""
    path = tmp_path / "check.toml"
    path.write_text(text)

    with pytest.raises(RulesError, match=rf"^{re.escape(str(path))}:? {message}") as mistake:
        read_rules(path)

    assert len(str(mistake.value).splitlines()) == 1


def test_all_mistakes_are_reported_together(tmp_path: Path) -> None:
    """Each mistake has a line, in the order of the file."""
    path = tmp_path / "check.toml"
    path.write_text("models = 1\nx = 1\n[tools]\nin_order = 2\n[[arguments]]\ncall = 0\n[limits]\ncost = 'x'\n")

    with pytest.raises(RulesError) as mistakes:
        read_rules(path)

    places = [line.removeprefix(f"{path}: ").split()[0].strip(":") for line in str(mistakes.value).splitlines()]
    assert places == ["models", "x", "arguments[1].call", "arguments[1]", "tools.in_order", "limits.cost"]


def test_a_file_that_is_not_text_is_a_sentence(tmp_path: Path) -> None:
    """A file that is not UTF-8 is refused with its path."""
    (tmp_path / "check.toml").write_bytes(b"\xff\xfe")

    with pytest.raises(RulesError, match=r"check[.]toml is not UTF-8"):
        read_rules(tmp_path / "check.toml")
