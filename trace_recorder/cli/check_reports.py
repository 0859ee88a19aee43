"""Reports of the command `check`: text for people, JUnit XML for CI systems, and Markdown for a pull request.

Texts from runs are data. In XML, characters that XML does not allow are escaped. In Markdown, they stand in blocks of
code, whose fences are longer than any fence in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

from trace_recorder.cli.diff import comparison_lines
from trace_recorder.cli.read_files import UnreadableError, read_run
from trace_recorder.cli.text_layout import in_one_line, pluralize
from trace_recorder.figures.comparison.trajectory_diff import diff
from trace_recorder.figures.gate.gate import GateVerdict, RunVerdict, TaskVerdict
from trace_recorder.storage.atomic_write import replace_file
from trace_recorder.values.control_characters import escape_control_characters

MAX_RUNS = 10
"""A summary has the differences of at most this many runs, and the diff of each."""
MAX_DIFF_LINES = 60
MAX_LINE = 500
"""A line of a summary has at most this many characters, because a comment of GitHub has at most 65,536."""
_SUITE = "trace-recorder check"
_NOT_XML = re.compile("[\ufffe\uffff]")


def write_check_report(path: Path, text: str) -> None:
    """Write a report, in place of an earlier one."""
    replace_file(path, [text.encode("utf-8", "backslashreplace")])


# ── text ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def verdict_lines(verdict: GateVerdict) -> Iterator[str]:
    """Yield the lines of a verdict for people."""
    for task in verdict.tasks:
        yield f"{verdict_word(task)}: {task_title(task)}"
        for run in task.runs:
            yield f"  {run_line(run)}"
            yield from (f"    {violation}" for violation in run.violations)
        if task.problem:
            yield f"  {task.problem}"
    yield summary_line(verdict)


def verdict_word(task: TaskVerdict) -> str:
    """Return whether a task passes, as a word."""
    if task.passed:
        return "ok"
    return "failed"


def task_title(task: TaskVerdict) -> str:
    """Return the task of the runs on one line."""
    return task.task or "runs without a task"


def run_line(run: RunVerdict) -> str:
    """Return the result of one run as a sentence."""
    if run.unreadable:
        return f"{run.path}: it cannot be read"
    if run.golden is None:
        return f"{run.path}: there is no golden run to compare it with"
    if run.passed:
        return f"{run.path}: agrees with {run.golden}"
    return f"{run.path}: {pluralize(len(run.violations), 'difference')} from {run.golden}"


def summary_line(verdict: GateVerdict) -> str:
    """Return how many tasks pass."""
    passed = sum(task.passed for task in verdict.tasks)
    return f"{passed} of {pluralize(len(verdict.tasks), 'task')} ok"


# ── JUnit ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def junit_xml(verdict: GateVerdict) -> str:
    """Return the verdict as JUnit XML: a suite for each task, and a test case for each live run.

    A run that differs is a failure only if its task does not pass. Otherwise its differences are in `system-out`. A
    task that does not pass although no run fails has a test case of its own.
    """
    root = ET.Element("testsuites", name=_SUITE)
    for task in verdict.tasks:
        root.append(_suite(task))
    for name in ("tests", "failures", "errors"):
        root.set(name, str(sum(int(suite.get(name, 0)) for suite in root)))
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _suite(task: TaskVerdict) -> ET.Element:
    title = _xml_text(task_title(task))
    suite = ET.Element("testsuite", name=title)
    for run in task.runs:
        case = ET.SubElement(suite, "testcase", classname=title, name=_xml_text(str(run.path)), time="0")
        _add_result(case, run, is_failure=not task.passed)
    if task.problem and suite.find("testcase/failure") is None and suite.find("testcase/error") is None:
        case = ET.SubElement(suite, "testcase", classname=title, name="enough runs agree", time="0")
        ET.SubElement(case, "failure", message=_xml_text(task.problem), type="task")
    suite.set("tests", str(len(suite)))
    suite.set("failures", str(len(suite.findall("testcase/failure"))))
    suite.set("errors", str(len(suite.findall("testcase/error"))))
    return suite


def _add_result(case: ET.Element, run: RunVerdict, *, is_failure: bool) -> None:
    text = _xml_text("\n".join([run_line(run), *map(str, run.violations)]))
    if run.unreadable:
        error = ET.SubElement(case, "error", message=_xml_text(run.unreadable), type="unreadable")
        error.text = text
    elif run.violations and is_failure:
        rules = ", ".join(dict.fromkeys(violation.rule for violation in run.violations))
        failure = ET.SubElement(case, "failure", message=_xml_text(str(run.violations[0])), type=rules)
        failure.text = text
    elif run.violations:
        ET.SubElement(case, "system-out").text = text


def _xml_text(text: str) -> str:
    return _NOT_XML.sub(lambda match: match[0].encode("unicode_escape").decode(), escape_control_characters(text))


# ── Markdown ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def markdown_summary(verdict: GateVerdict) -> str:
    """Return the verdict as Markdown: a table of the tasks, and what differs with the diff of the two runs."""
    return "\n".join(_markdown_lines(verdict)) + "\n"


def _markdown_lines(verdict: GateVerdict) -> Iterator[str]:
    yield f"### {_SUITE}: {summary_line(verdict)}"
    yield ""
    yield "| | task | runs that agree |"
    yield "|---|---|---|"
    for task in verdict.tasks:
        agree = sum(run.passed for run in task.runs)
        yield f"| {verdict_word(task)} | {_cell(task_title(task))} | {agree} of {len(task.runs)} |"
    problems = [f"{task_title(task)}: {task.problem}" for task in verdict.tasks if task.problem]
    if problems:
        yield from ("", *_block(problems))
    differing = [run for task in verdict.tasks for run in task.runs if not run.passed]
    for run in differing[:MAX_RUNS]:
        yield from ("", *_block([run_line(run), *(f"  {violation}" for violation in run.violations)]))
        yield from _diff_block(run)
    if len(differing) > MAX_RUNS:
        yield ""
        yield f"{len(differing) - MAX_RUNS} more runs differ."


def _diff_block(run: RunVerdict) -> Iterator[str]:
    """Yield the diff of a run and its good run, folded."""
    if run.golden is None:
        return
    try:
        difference = diff(read_run(run.golden), read_run(run.path))
    except UnreadableError:
        return
    lines = [str(line).removeprefix("  ") for line, _ in comparison_lines(difference, "golden", "live", every=True)]
    shown = lines[:MAX_DIFF_LINES]
    if len(lines) > MAX_DIFF_LINES:
        shown.append(f"... {len(lines) - MAX_DIFF_LINES} more lines: trace-recorder diff --all shows them")
    yield from ("", "<details><summary>diff</summary>", "", *_block(shown, "diff"), "", "</details>")


def _block(lines: list[str], language: str = "") -> Iterator[str]:
    """Yield lines as a block of code that no text can end."""
    shown = [in_one_line(line)[:MAX_LINE] for line in lines]
    runs = re.findall("`+", "\n".join(shown))
    fence = "`" * max([3, *(len(run) + 1 for run in runs)])
    yield f"{fence}{language}"
    yield from shown
    yield fence


def _cell(text: str) -> str:
    """Return a text as inline code in a table."""
    text = in_one_line(text)[:MAX_LINE].replace("|", "\\|")
    fence = "`" * (1 + max([0, *map(len, re.findall("`+", text))]))
    return f"{fence} {text} {fence}"
