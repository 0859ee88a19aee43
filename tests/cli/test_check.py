"""The command `check`: exit codes, the text for people, JSON, JUnit XML and Markdown."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.cli.invoking import invoke
from tests.figures.gate.recorded_runs import QUESTION, answer, recorded_run, tool

HOSTILE = "\x1b[31m </failure>]]> ``` <script> | \x00\ufffe\ud800 \u202e"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with golden runs of two tasks, and live runs, of which one of each task differs."""
    monkeypatch.chdir(tmp_path)
    for name in ("golden", "live"):
        (tmp_path / name).mkdir()
        recorded_run(Path(name, "tea.json"), [answer(None, tool("search")), answer("Green.")])
        recorded_run(Path(name, "rice.json"), [answer("White.")], task="rice")
    recorded_run(Path("live", "tea_2.json"), [answer(None, tool("fetch")), answer("Green.")])
    recorded_run(Path("live", "rice_2.json"), [answer("White.")], task="rice", model="n")
    return tmp_path


TEXT = """\
failed: rice
  live/rice.json: agrees with golden/rice.json
  live/rice_2.json: 1 difference from golden/rice.json
    models: step 1: n, and m in the golden run
  1 of 2 runs agree with a golden run, and 2 must
failed: tea
  live/tea.json: agrees with golden/tea.json
  live/tea_2.json: 1 difference from golden/tea.json
    tools: step 1: other calls than in the golden run: [-search-]{+fetch+}
  1 of 2 runs agree with a golden run, and 2 must
0 of 2 tasks ok
"""


def test_the_text_has_a_line_for_each_run_and_each_difference(place: Path) -> None:
    """Runs that differ make the exit code 1. If one of two runs is enough, it is 0."""
    (place / "check.toml").write_text('passing = "1 of 2"\n')

    strict = invoke("check", "golden", "--against", "live")
    relaxed = invoke("check", "golden", "--against", "live", "--rules", "check.toml")

    assert (strict.exit_code, strict.output) == (1, TEXT)
    assert (relaxed.exit_code, relaxed.output.splitlines()[-1]) == (0, "2 of 2 tasks ok")


def test_several_files_may_follow_against(place: Path) -> None:
    """A shell makes several words of a pattern. All of them are live runs, until the next option."""
    words = ["golden/rice.json", "golden/tea.json", "--against", "live/rice.json", "live/tea.json", "--json"]
    done = invoke("check", *words)

    found = json.loads(done.output)
    assert (done.exit_code, [run["run"] for task in found["tasks"] for run in task["runs"]]) == (0, words[3:5])
    assert invoke("check", *words[:2], "--against", words[3], "--against", words[4]).exit_code == 0


def test_json_has_each_verdict(place: Path) -> None:
    """`--json` prints the tasks, their runs, and what breaks which rule."""
    done = invoke("check", "golden", "--against", "live/tea.json", "live/tea_2.json", "live/rice.json", "--json")

    found = json.loads(done.output)
    assert (done.exit_code, found["passed"], [task["passed"] for task in found["tasks"]]) == (1, False, [True, False])
    assert found["tasks"][1]["runs"][1] == {
        "run": "live/tea_2.json",
        "golden": "golden/tea.json",
        "passed": False,
        "violations": [
            {
                "rule": "tools",
                "message": "other calls than in the golden run: [-search-]{+fetch+}",
                "step": 1,
            }
        ],
    }


def junit(*arguments: object) -> tuple[int, ElementTree.Element]:
    """Run the command, and return its exit code and the report that it wrote."""
    done = invoke("check", *arguments, "--junit", "report.xml")
    return done.exit_code, ElementTree.parse("report.xml").getroot()


def outcomes(root: ElementTree.Element) -> list[tuple[str, str, str | None]]:
    """Return each test case with its class, its name, and the kind of its result."""
    cases = root.findall("testsuite/testcase")
    return [(case.get("classname", ""), case.get("name", ""), next((e.tag for e in case), None)) for case in cases]


def test_junit_has_a_case_for_each_run(place: Path) -> None:
    """A run that differs is a failure. If its task passes, its differences are only printed."""
    (place / "check.toml").write_text('passing = "1 of 2"\n')

    code, root = junit("golden", "--against", "live")
    relaxed_code, relaxed = junit("golden", "--against", "live", "--rules", "check.toml")

    assert (code, root.tag, root.attrib) == (
        1,
        "testsuites",
        {"name": "trace-recorder check", "tests": "4", "failures": "2", "errors": "0"},
    )
    assert outcomes(root)[:2] == [("rice", "live/rice.json", None), ("rice", "live/rice_2.json", "failure")]
    failure = root.find("testsuite[2]/testcase[2]/failure")
    assert failure is not None
    assert (failure.get("type"), failure.get("message")) == (
        "tools",
        "tools: step 1: other calls than in the golden run: [-search-]{+fetch+}",
    )
    assert (relaxed_code, relaxed.get("failures")) == (0, "0")
    assert [kind for _, _, kind in outcomes(relaxed)] == [None, "system-out"] * 2


def test_the_summary_has_the_diff(place: Path) -> None:
    """The Markdown has a table of the tasks, the broken rules, and the folded diff of both runs."""
    done = invoke("check", "golden/tea.json", "--against", "live/tea_2.json", "--markdown", "summary.md")

    assert done.exit_code == 1
    assert (place / "summary.md").read_text().splitlines() == [
        "### trace-recorder check: 0 of 1 task ok",
        "",
        "| | task | runs that agree |",
        "|---|---|---|",
        "| failed | ` tea ` | 0 of 1 |",
        "",
        "```",
        "tea: 0 of 1 runs agree with a golden run, and 1 must",
        "```",
        "",
        "```",
        "live/tea_2.json: 1 difference from golden/tea.json",
        "  tools: step 1: other calls than in the golden run: [-search-]{+fetch+}",
        "```",
        "",
        "<details><summary>diff</summary>",
        "",
        "```diff",
        *invoke("diff", "golden/tea.json", "live/tea_2.json", "--all")
        .output.replace("  - ", "- ")
        .replace("  + ", "+ ")
        .replace("  ~ ", "~ ")
        .replace("a golden/tea.json", "a golden")
        .replace("b live/tea_2.json", "b live")
        .splitlines(),
        "```",
        "",
        "</details>",
    ]


def test_texts_of_runs_stay_data_in_reports(place: Path) -> None:
    """Hostile texts end no block of a report, and control no terminal."""
    hostile = [answer(HOSTILE, tool(HOSTILE)), answer(HOSTILE)]
    for name in ("a", "b"):
        prompt = [{"role": "user", "content": HOSTILE + name}]
        recorded_run(Path(f"{name}.json"), hostile, prompt=prompt, task=HOSTILE, model=HOSTILE + name)

    done = invoke("check", "a.json", "--against", "b.json", "--junit", "r.xml", "--markdown", "s.md")

    root = ElementTree.fromstring((place / "r.xml").read_text(encoding="utf-8"))
    summary = (place / "s.md").read_text(encoding="utf-8")
    assert (done.exit_code, [kind for _, _, kind in outcomes(root)]) == (1, ["failure"])
    assert not {"\x1b", "\x00", "\u202e"} & {*done.output, *summary}
    fences = [line for line in summary.splitlines() if line.startswith("````")]
    assert (fences, "<script>" in _outside_of_code(summary)) == (
        ["````", "````", "````", "````", "````diff", "````"],
        False,
    )


def _outside_of_code(summary: str) -> str:
    """Return the lines of a summary that are in no block and no code in a line."""
    lines, is_inside = [], False
    for line in summary.splitlines():
        if line.startswith("````"):
            is_inside = not is_inside
        elif not is_inside:
            lines.append("".join(line.split("````")[::2]))
    return "\n".join(lines)


def test_misuse_and_unreadable_runs_exit_with_2(place: Path) -> None:
    """Each mistake is a sentence. A run that cannot be read is an error of its test case."""
    (place / "check.toml").write_text("models = 1\ntool = 1\n")
    (place / "none.json").write_text("{}")
    (place / "empty").mkdir()
    cases = {
        ("golden", "--against", "live", "--rules", "check.toml"): [
            "trace-recorder: check.toml: models: 1 is not true or false",
            "trace-recorder: check.toml: tool is not a rule; did you mean tools?",
        ],
        ("golden", "--against", "live", "--rules", "none.toml"): [
            "trace-recorder: none.toml: No such file or directory"
        ],
        ("golden", "--against", "empty"): ["trace-recorder: there are no trajectories in empty"],
        ("golden/tea.json", "--against", "golden"): [
            f"trace-recorder: {place}/golden/tea.json is a golden run and a live run; give it once"
        ],
        ("golden", "--against", "gone.json"): ["trace-recorder: gone.json: No such file or directory"],
        ("golden", "--against", "live", "--junit", "no/report.xml"): [
            "trace-recorder: no/report.xml: No such file or directory"
        ],
    }
    for words, messages in cases.items():
        done = invoke("check", *words)
        assert (done.exit_code, done.stderr.splitlines()) == (2, messages)
    assert invoke("check", "golden").exit_code == 2

    code, root = junit("golden", "--against", "live/tea.json", "none.json")
    assert (code, root.get("errors"), outcomes(root)) == (
        2,
        "1",
        [
            ("rice", "enough runs agree", "failure"),
            ("tea", "live/tea.json", None),
            ("runs that cannot be read", "none.json", "error"),
        ],
    )


def test_the_command_works_as_a_program(place: Path) -> None:
    """The installed command prints the text, and exits with 1."""
    command = [sys.executable, "-m", "trace_recorder", "check", "golden", "--against", "live"]

    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (1, TEXT, "")


def test_a_damaged_run_does_not_end_the_check(place: Path) -> None:
    """A run whose calls cannot be read is reported, and the other runs are checked."""
    document = json.loads(Path("live/tea.json").read_text())
    document["llm_interactions"][0]["response"] = {"tool_calls": [{"arguments": 1}, 2]}
    Path("live/damaged.json").write_text(json.dumps(document))

    done = invoke("check", "golden", "--against", "live")

    assert (done.exit_code, done.stderr.count("live/damaged.json")) == (2, 1)
    assert "live/damaged.json: it cannot be read" in done.stdout
    assert "live/tea.json: agrees with golden/tea.json" in done.stdout


def test_prompts_of_a_user_differ(place: Path) -> None:
    """A changed prompt of the user is found without a rule."""
    prompt = [QUESTION | {"content": "Which colour has oolong?"}]
    recorded_run(Path("other.json"), [answer(None, tool("search")), answer("Green.")], prompt=prompt)

    assert (
        "user message: Which colour has[- sencha-]{+ oolong+}?"
        in invoke("check", "golden/tea.json", "--against", "other.json").output
    )
