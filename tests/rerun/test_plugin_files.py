"""The plugin's files: the name of each test's journal, many tests at once, and the cost for projects that do not use
it.
"""

from __future__ import annotations

import ast

from hypothesis import given
from hypothesis import strategies as st

from pytest_trace_recorder import safe_name
from tests.processes import ROOT, python
from tests.rerun.plugin_runs import Project

MANY = """
@pytest.mark.trajectory
@pytest.mark.parametrize("question", ["a", "A", "a/b", "a_b", "../x", "x" * 300])
def test_each(question):
    assert run(question) == ["hi"]

@pytest.mark.trajectory
class TestClass:
    def test_each(self):
        run("c")
"""


def test_each_test_has_its_own_file(project: Project) -> None:
    """The file's name has the parameters and the class. It is unique even if upper and lower case count as the same."""
    project.run(MANY).assert_outcomes(passed=7)
    project.run(MANY, "--trajectory-mode=none").assert_outcomes(passed=7)

    names = sorted(project.journals)
    assert project.requests == [7, 0]
    assert len({name.casefold() for name in names}) == 7
    assert {name.partition("/")[0] for name in names} == {"test_it"}
    assert {"test_it/test_each[a].jsonl", "test_it/test_each[a_b].jsonl"} < set(names)
    assert [name[:27] for name in names if "TestClass" in name] == ["test_it/TestClass.test_each"]


def test_many_workers_record_and_replay(project: Project) -> None:
    """With xdist, each worker records and replays its own tests. The summary has the difference of a worker's test."""
    changed = MANY.replace('run("c")', 'run("d")')
    project.run(MANY, "-n", "2", subprocess=True).assert_outcomes(passed=7)
    result = project.run(changed, "-n", "2", "--trajectory-mode=none", subprocess=True)

    result.assert_outcomes(passed=6, failed=1)
    result.stdout.fnmatch_lines([
        "*= replays that differ from their journals =*",
        "*messages[[]0[]].content: [[]-c-[]]{+d+}",
        "*pytest --trajectory-mode=all test_it.py::TestClass::test_each",
    ])  # fmt: skip
    assert (project.requests, len(project.journals)) == ([7, 0], 7)


def test_a_marker_may_give_a_name_or_a_path(project: Project) -> None:
    """A name is a file in the folder of the test's module. A path is relative to the test's directory."""
    tests = """
@pytest.mark.trajectory("greeting")
def test_name():
    run("a")

@pytest.mark.trajectory(path="runs/agent.json")
def test_path():
    run("b")
"""
    project.run(tests).assert_outcomes(passed=2)

    assert list(project.journals) == ["test_it/greeting.jsonl"]
    assert [path.name for path in (project.pytester.path / "runs").iterdir()] == ["agent.jsonl"]


@given(st.lists(st.text(alphabet="aAbB_.-/[]é\ud800", max_size=5), unique=True, min_size=2))
def test_names_never_collide(names: list[str]) -> None:
    """Two names give two files, even on file systems that ignore case."""
    safe = [safe_name(name) for name in names]

    assert len({one.casefold() for one in safe}) == len(names)
    assert all("/" not in one and one.isascii() for one in safe)


SESSION = """
def pytest_sessionfinish():
    import sys
    ours = [name for name in sys.modules if name.partition(".")[0] == "trace_recorder"]
    print("OURS", ours, "pytest_trace_recorder" in sys.modules)
"""


def test_a_project_that_does_not_use_the_plugin_imports_only_its_module(project: Project) -> None:
    """Only the plugin's module is loaded, by its entry point."""
    project.pytester.makeconftest(SESSION)
    project.pytester.makepyfile("def test_plain():\n    pass\n")

    result = project.pytester.runpytest_subprocess("-s", "--trajectory-mode=once")

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*OURS [[][]] True"])


def test_the_plugin_s_module_imports_nothing_of_ours() -> None:
    """Imports of the package are within its functions, and under TYPE_CHECKING."""
    tree = ast.parse((ROOT / "pytest_trace_recorder.py").read_text(encoding="utf-8"))
    imported = {node.module for node in tree.body if isinstance(node, ast.ImportFrom)}
    imported |= {name.name for node in tree.body if isinstance(node, ast.Import) for name in node.names}

    assert "pytest" in imported
    assert {name for name in imported if name and name.startswith("trace_recorder")} == set()


def test_the_package_may_be_imported_before_pytest() -> None:
    """pytest rewrites the assertions of a plugin's package, and would warn if the package was imported before."""
    code = """
        import pytest, trace_recorder, warnings
        from _pytest.assertion.rewrite import AssertionRewriter
        print(AssertionRewriter.is_rewrite_disabled(trace_recorder.__doc__))
    """

    assert python(code).stdout == "True\n"
