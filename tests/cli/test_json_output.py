"""JSON on stdout: characters that a terminal would obey or hide are escaped, and every reader reads the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.cli.invoking import app
from trace_recorder import TrajectoryRecorder

OBEYED = "".join(map(chr, (*range(0x80, 0xA0), 0x7F, 0x61C, *range(0x200E, 0x2010), *range(0x2028, 0x202F), 0xFEFF)))
OBEYED += "".join(map(chr, range(0x2066, 0x206A)))
SAID = f"a{OBEYED}\r\n\tß日\U0001f600"


@pytest.mark.parametrize(
    "arguments",
    [
        ("show", "--json", "run.json"),
        ("show", "--turns", "--json", "run.json"),
        ("list", "--json", "."),
        ("validate", "--json", "run.json"),
        ("export", "-f", "openai", "run.json"),
        ("export", "-f", "invariant", "run.json"),
    ],
    ids=" ".join,
)
def test_json_holds_nothing_that_a_terminal_obeys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    """C1 and bidi controls, and separators, are printed as escapes.

    The text reads back unchanged, letters as they are.
    """
    monkeypatch.chdir(tmp_path)
    with TrajectoryRecorder("run.json", task=SAID, metadata={SAID: 1}) as recorder:
        recorder.record_llm_interaction([{"role": "user", "content": SAID}], {"content": SAID}, "openai", "m")
        recorder.finalize(success=True)

    printed = CliRunner().invoke(app, list(arguments), prog_name="trace-recorder")

    assert (printed.exit_code, [one for one in OBEYED if one in printed.stdout]) == (0, [])
    read = [json.loads(printed.stdout)] if "--json" in arguments else map(json.loads, printed.stdout.split("\n")[:-1])
    said = json.dumps(list(read), ensure_ascii=False)
    assert ("validate" in arguments) or json.dumps(SAID, ensure_ascii=False)[1:-1] in said
    assert ("validate" in arguments) or "ß日\U0001f600" in printed.stdout
