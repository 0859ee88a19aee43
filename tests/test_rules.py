"""Rules for the package as a whole: which room may import which, what the package exports, and what importing
it does.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import GenericAlias

import pytest

import trace_recorder
from tests import density
from tests.processes import ROOT, python
from trace_recorder import errors

PACKAGE = ROOT / "trace_recorder"
SDKS = {"openai", "anthropic", "google", "ollama", "httpx", "httpx2", "aiohttp", "pydantic", "rich", "typer", "mcp"}

TABLE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").partition("## Rooms")[2].partition("\n## ")[0]
ROOMS = re.findall(r"^\| `([a-z_]+)(?:\.py|/)` \|", TABLE, re.MULTILINE)
"""The order of the rooms, from the first to the last, as on the page about the architecture."""


def room(module: str) -> str:
    """Return the room of a module: a file of the package, or a folder."""
    return module.split(".")[1]


def module_of(path: Path) -> str:
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    name = name.replace("trace_recorder.__main__", "trace_recorder.cli.__main__")  # a call of that room, and not a room
    return name.removesuffix(".__init__")


@cache
def imports() -> dict[str, frozenset[str]]:
    """Return for every module of the package the names of the modules that it imports anywhere."""
    return {module_of(path): frozenset(_imported(path)) for path in PACKAGE.rglob("*.py")}


@cache
def imports_at_run_time() -> dict[str, frozenset[str]]:
    """Return the imports without those for type checkers."""
    return {module_of(path): frozenset(_imported(path, types=False)) for path in PACKAGE.rglob("*.py")}


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


@cache
def _import_statements(path: Path) -> list[tuple[ast.Import | ast.ImportFrom, bool]]:
    """Return the import statements of a file, each with whether it is only for type checkers."""
    return [
        (node, _is_for_types(statement))
        for statement in ast.parse(path.read_text(encoding="utf-8")).body
        for node in ast.walk(statement)
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]


def _imported(path: Path, *, types: bool = True) -> Iterator[str]:
    for node, is_for_types in _import_statements(path):
        if is_for_types and not types:
            continue
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif node.module:
            for name in node.names:
                inner = f"{node.module}.{name.name}"
                yield (
                    inner
                    if (ROOT / inner.replace(".", "/")).with_suffix(".py").exists() or _is_room(inner)
                    else node.module
                )


def _is_room(module: str) -> bool:
    return (ROOT / module.replace(".", "/") / "__init__.py").exists()


def rank(name: str) -> int:
    return ROOMS.index(name)


def part(module: str) -> str:
    """Return the file or folder of a room to which a module belongs."""
    return ".".join(module.split(".")[:3])


def in_circles(ways: dict[str, set[str]]) -> dict[str, set[str]]:
    """Return the modules, or folders, that cannot be ordered, with their imports."""
    left = {name: imported - {name} for name, imported in ways.items()}
    while free := {name for name, imported in left.items() if not imported & left.keys()}:
        left = {name: imported for name, imported in left.items() if name not in free}
    return left


def own(modules: frozenset[str]) -> set[str]:
    return {module for module in modules if module.startswith("trace_recorder.")}


def test_the_table_of_rooms_has_every_folder() -> None:
    """The table of rooms has exactly the modules and folders of the package's root."""
    there = {room(module) for module in imports() if "." in module}

    assert sorted(ROOMS) == sorted(there)


def test_no_room_imports_one_below_it() -> None:
    """A room imports only rooms that are above it in the table."""
    wrong = [
        (module, imported)
        for module, modules in imports().items()
        for imported in own(modules)
        if "." in module and rank(room(module)) < rank(room(imported))
    ]

    assert wrong == []


def test_folders_within_a_room_are_ordered_too() -> None:
    """The files and folders of a room can be ordered so that each imports only earlier ones."""
    ways: dict[str, set[str]] = {}
    for module, modules in imports().items():
        ways.setdefault(part(module), set()).update(map(part, own(modules)))

    assert in_circles(ways) == {}


def test_no_modules_import_each_other_in_a_circle() -> None:
    """No modules of the package import each other in a circle."""
    assert in_circles({module: own(modules) for module, modules in imports().items()}) == {}


def test_no_module_imports_the_top() -> None:
    """No module of the package imports the package's own top, which is for users."""
    assert [module for module, modules in imports().items() if "trace_recorder" in modules] == []


def test_rooms_import_no_sdk() -> None:
    """Only the clients, the viewer, the proxy and the command line may import an SDK, an HTTP library or rich."""
    allowed = {
        "trace_recorder.cli": {"rich", "typer"},
        "trace_recorder.proxy": {"httpx2"},
        "trace_recorder.mcp_server": {"mcp"},
    }
    forbidden = {
        (module, imported)
        for module, modules in imports_at_run_time().items()
        for imported in modules
        if "." in module
        and not any(
            module.startswith(folder) and imported.partition(".")[0] in sdks for folder, sdks in allowed.items()
        )
        and imported.partition(".")[0] in SDKS
        and room(module) not in {"clients", "viewer"}
    }

    assert forbidden == set()


def test_all_imports_are_absolute() -> None:
    """Every import is absolute, so that the imports of a module can be searched for."""
    relative = [
        module_of(path)
        for path in PACKAGE.rglob("*.py")
        for node, _ in _import_statements(path)
        if isinstance(node, ast.ImportFrom) and node.level
    ]

    assert relative == []


def test_all_lists_every_export() -> None:
    """`__all__` is sorted, and has exactly the names of the top that are not modules."""
    helpers = {"TYPE_CHECKING", "Any", "import_module"}
    public = {
        name for name, value in vars(trace_recorder).items() if not name.startswith("_") and not inspect.ismodule(value)
    }
    imported_late = {name for name in trace_recorder.__all__ if name not in public and hasattr(trace_recorder, name)}
    public = public - helpers | imported_late

    assert (trace_recorder.__all__, public) == (sorted(trace_recorder.__all__), set(trace_recorder.__all__))


def test_every_export_has_a_docstring() -> None:
    """Each public name has a docstring, which `help()` shows."""
    exported = {name: getattr(trace_recorder, name) for name in trace_recorder.__all__}
    aliases = {name for name, value in exported.items() if isinstance(value, GenericAlias)}  # without docstrings

    assert [name for name, value in exported.items() if not value.__doc__ and name not in aliases] == []
    assert aliases == {"Redactor"}


def test_every_error_is_exported() -> None:
    """The package's top exports every exception, so that a user can catch it."""
    raised = {name for name, value in vars(errors).items() if getattr(value, "__module__", "") == errors.__name__}

    assert raised <= set(trace_recorder.__all__)


def test_a_recorder_has_only_public_attributes_for_users() -> None:
    """A recorder and a step have no public attribute that only the package itself needs."""
    recorder = {name for name in dir(trace_recorder.TrajectoryRecorder) if not name.startswith("_")}
    step = {name for name in dir(trace_recorder.Step) if not name.startswith("_")}

    assert recorder == {
        *("start", "start_recording", "finalize", "finalize_recording", "save_trajectory", "update_lakeview"),
        *("record_llm_interaction", "record_agent_step", "reward", "annotate"),
        *("step", "agent", "tool", "tool_call", "wrap", "child_environment"),
        *("trajectory_path", "trajectory_data", "get_trajectory_path"),
    }
    assert step == {"step_number", "state", "reflection", "error"}


_NEW_LOCK = r"(new_l|\bL)ock\(|threading\.(R?Lock|Condition)\("


def _locks_in(path: Path) -> Iterator[str]:
    """Yield the locks that a module creates: `Class.attribute`, or `module.variable`."""
    text = path.read_text(encoding="utf-8")
    if not re.search(_NEW_LOCK, text):
        return
    tree = ast.parse(text)
    owners = {node: one.name for one in ast.walk(tree) if isinstance(one, ast.ClassDef) for node in ast.walk(one)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and re.match(_NEW_LOCK, ast.unparse(node.value)):
            yield f"{owners.get(node, path.stem)}.{ast.unparse(node.targets[0]).removeprefix('self.')}"


def test_every_lock_is_on_the_page_of_the_architecture() -> None:
    """The section on locks in docs/architecture.md names exactly the locks of the package."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = page.partition("## Locks and their order")[2].partition("\n## ")[0]

    named = set(re.findall(r"`(\w+\.\w*(?:lock|wake))`", section))

    assert named == {lock for path in PACKAGE.rglob("*.py") for lock in _locks_in(path)} - {"locks.lock"}


LISTEN = """
import json, sys
written = []

def listen(event, arguments):
    if event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+"):
        written.append(str(arguments[0]))
    if event in ("os.mkdir", "os.rename", "os.remove", "socket.connect", "subprocess.Popen", "os.fork"):
        written.append(event)

sys.dont_write_bytecode = True
sys.addaudithook(listen)
import threading
from trace_recorder import TrajectoryRecorder, current_recorder, load, validate
print(json.dumps([sorted(sys.modules), written, threading.active_count()]))
"""


def test_importing_is_silent() -> None:
    """Importing the usual modules prints, writes and starts nothing, and imports no SDK, httpx or pydantic."""
    ended = python(LISTEN)

    modules, written, threads = json.loads(ended.stdout)
    assert (ended.stderr, written, threads) == ("", [], 1)
    assert {name.partition(".")[0] for name in modules} & SDKS == set()


MODULES_OF_START, MODULES_OF_ALL = 130, 180
"""So many modules of ours are imported for the first `start`, and for `instrument()`, which reads every dialect."""


def test_what_importing_costs() -> None:
    """Importing the package loads at most a stated number of modules. The number and the time are printed."""
    program = "from trace_recorder import TrajectoryRecorder, current_recorder, load, validate"
    ended = python(f"import subprocess, sys; subprocess.run([sys.executable, '-X', 'importtime', '-c', {program!r}])")

    lines = [line.split("|") for line in ended.stderr.splitlines() if line.startswith("import time:")][1:]
    total = sum(int(line[0].partition(":")[2]) for line in lines)
    ours = [line for line in lines if line[2].strip().startswith("trace_recorder")]
    print(f"{program}: {len(lines)} modules, {len(ours)} of them ours, {total / 1000:.1f} ms")
    assert len(lines) < 315  # the standard library imports more of its own modules in newer versions of Python


@pytest.mark.parametrize(
    ("name", "way", "most"),
    [("TrajectoryRecorder", "(sys.argv[1]).start()", MODULES_OF_START), ("instrument", "()", MODULES_OF_ALL)],
)
def test_what_the_first_start_imports(name: str, way: str, most: int, tmp_path: Path) -> None:
    """The first start imports at most a stated number of our modules. The numbers may only become lower."""
    code = f"""
        import os, sys
        from trace_recorder import {name}
        {name}{way}
        print(sum(name.partition(".")[0] == "trace_recorder" for name in sys.modules), flush=True)
        os._exit(0)
    """

    assert int(python(code, tmp_path / "run.json").stdout) <= most


def _patterns_compiled_by_import(path: Path) -> Iterator[str]:
    """Return the places where a module calls `re.compile` when it is imported."""
    waiting: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "re.compile":
            yield f"{path.relative_to(ROOT)}:{node.lineno}"
        waiting += ast.iter_child_nodes(node)


def test_the_agent_s_process_compiles_no_pattern_at_import() -> None:
    """A regular expression of the kernel is compiled when it is first used (`lazy_patterns.py`)."""
    paths = [path for name in IN_THE_AGENT if name != "rerun" for path in (PACKAGE / name).rglob("*.py")]

    assert [place for path in paths for place in _patterns_compiled_by_import(path)] == []


IN_THE_AGENT = ("storage", "values", "reading", "dialects", "recording", "capture", "attach", "rerun")
"""The rooms whose code runs in the agent's threads, where a signal's handler may raise at any moment."""
PASSES = {"BaseException", "Exception", "GeneratorExit", "ImportError", "StopIteration", "StopAsyncIteration"}
"""`Exception` is caught in one place, which checks for a handler's exception. No other exception here can be a
handler's.
"""


def _named_by_clauses(path: Path) -> Iterator[str]:
    """Return Python's exceptions that the clauses of a file, and `contextlib.suppress`, catch by name only."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ExceptHandler) and node.type is not None:
            named = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
            for one in named:
                if isinstance(one, ast.Name) and one.id not in PASSES and hasattr(builtins, one.id):
                    yield f"{path.relative_to(ROOT)}:{node.lineno} {one.id}"
        elif isinstance(node, ast.ImportFrom) and node.module == "contextlib":
            yield from (f"{path.relative_to(ROOT)}:{node.lineno}" for name in node.names if name.name == "suppress")
        elif isinstance(node, ast.Attribute) and ast.unparse(node) == "contextlib.suppress":
            yield f"{path.relative_to(ROOT)}:{node.lineno}"


def test_no_clause_catches_a_handler_s_exception() -> None:
    """In the rooms that run in the agent's threads, an `except` clause names Python's exceptions only within `ours`."""
    paths = [
        *{*PACKAGE.glob("*.py")} - {PACKAGE / "signal_handlers.py", PACKAGE / "guard.py"},
        *(path for name in IN_THE_AGENT for path in (PACKAGE / name).rglob("*.py")),
    ]

    assert [named for path in paths for named in _named_by_clauses(path)] == []


MAX_CONDITIONAL_IN_100 = 3
"""A branch is a statement: so many conditional expressions may be in 100 statements of a room."""


MAX_HELPERS = 172
"""Short private functions with one caller in the package: `tests/density.py` says how they are counted. A boundary for
interrupts is one, or a test that has a name. The number may only become lower.
"""


@cache
def densities() -> dict[str, density.Density]:
    return density.of_rooms(PACKAGE)


def test_no_conditional_expression_is_nested() -> None:
    """No conditional expression is inside another one."""
    counts = {name: counted.nested for name, counted in densities().items()}

    assert {name: count for name, count in counts.items() if count} == {}


def test_no_conditional_expression_is_in_a_comprehension() -> None:
    """No comprehension has a conditional expression."""
    counts = {name: counted.in_comprehensions for name, counted in densities().items()}

    assert {name: count for name, count in counts.items() if count} == {}


def test_branches_are_statements() -> None:
    """Each room has at most three conditional expressions in 100 statements."""
    shares = {name: counted.conditional_in_100 for name, counted in densities().items()}

    assert {name: share for name, share in shares.items() if share > MAX_CONDITIONAL_IN_100} == {}


def test_few_helpers_have_one_caller() -> None:
    """The package has at most a stated number of private functions with one caller and fewer than six lines."""
    assert sum(counted.helpers for counted in densities().values()) <= MAX_HELPERS


OF_EACH_RECORD = {
    "clients/wire_formats": {"assistant", "build_request"},
    "dialects": {
        "join_stream",
        "not_found",
        "read_message",
        "read_request",
        "read_response",
        "read_tool",
        "read_usage",
    },
    "formats": {"pieces", "read", "recognizes"},
    "proxy/programs": {"direct"},
}
"""Names that many modules of a folder define for their records, with one meaning in the folder."""

USERS_NAMES = {
    "attach/current.py": {"reward", "step", "tool_call", "unwrap", "wrap"},
    "cli": {"diff", "find", "run", "score", "view"},
    "formats/format_writer.py": {"view"},
    "recording/manual_records.py": {"reward", "step"},
    "reading/schemas/document.py": {"Step"},
    "attach/subprocess/": {"begin"},
    "rerun/subprocess/": {"begin"},
}
"""Names that users know: functions of the package's top, commands, which are functions with the command's name, the
decorator of views, a step in the document's schema. The records of `reward` and `step` have the names of the methods.
`begin` is the function that a started process calls in each of its modules.
"""


def _meaning(name: str, module: str) -> str | None:
    """Return the module or folder that gives a name its meaning, or None if users know the name from there."""
    if any(module.startswith(place) and name in names for place, names in USERS_NAMES.items()):
        return None
    for folder, names in OF_EACH_RECORD.items():
        if module.startswith(folder) and name in names:
            return folder
    return module


def test_public_names_have_one_meaning() -> None:
    """No name of a class or function has different meanings in the package."""
    repeated = {}
    for name, modules in density.repeated_names(PACKAGE).items():
        meanings = {_meaning(name, module) for module in modules} - {None}
        if len(meanings) > 1:
            repeated[name] = meanings

    assert repeated == {}


MEASURES = ("process_time", "thread_time", "tracemalloc", "getrusage", "ru_maxrss", "RLIMIT_CPU", "RLIMIT_AS")

MEASURING = ROOT / "tests" / "formats" / "memory.py"
"""The test reads files of a gigabyte in a separate process, whose size then differs by factors of ten."""


def test_no_test_measures_the_machine() -> None:
    """No test asserts a time or the size of a process, because tests of cost assert counts."""
    tests = [path for path in (ROOT / "tests").rglob("*.py") if path not in {Path(__file__), MEASURING}]

    assert [path.name for path in tests if any(word in path.read_text(encoding="utf-8") for word in MEASURES)] == []


PATCHED = {"tests/isolation/hooks.py", "tests/isolation/test_hooks.py", "tests/seams/own_suites.py"}
"""The first two break our own functions on purpose, to check that the agent never notices a bug. The third treats each
request of a different project's test suite as an LLM call.
"""


def _name_of(function: ast.expr) -> str:
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")


def _patched(path: Path) -> Iterator[str]:
    """Yield the places where a test replaces a part of the package: by `setattr`, by `delattr` or by assigning to an
    attribute.
    """
    nodes = [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    imported = {
        (name.asname or name.name).partition(".")[0]
        for node in nodes
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in node.names
        if (getattr(node, "module", None) or name.name).partition(".")[0] == PACKAGE.name
    }
    for node in nodes:
        if isinstance(node, ast.Call) and node.args and _name_of(node.func) in {"setattr", "delattr"}:
            target = node.args[0]
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
            target = node.value
        else:
            continue
        if re.split(r"\W", ast.unparse(target).strip("'\""))[0] in {*imported, PACKAGE.name}:
            yield f"{path.relative_to(ROOT)}:{node.lineno}"


def test_no_test_patches_our_modules() -> None:
    """No test replaces a function of the package: tests pass limits and functions, or cause real faults."""
    paths = [path for path in (ROOT / "tests").rglob("*.py") if str(path.relative_to(ROOT)) not in PATCHED]

    assert [place for path in paths for place in _patched(path)] == []
    assert all([*_patched(ROOT / name)] for name in PATCHED)
