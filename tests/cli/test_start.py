"""How the program starts: with the installed packages, and without imports that its command does not need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.data import recorded


@pytest.mark.parametrize("missing", ["typer", "rich", "rich.console"])
def test_a_missing_extra_is_named(missing: str) -> None:
    """Without the extra for commands, the program prints in one line what to install, and exits with 1."""
    code = f"import sys; sys.modules[{missing!r}] = None; from trace_recorder.cli import main; main()"

    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    told = "trace-recorder: the command line needs typer and rich: pip install 'trace-recorder[cli]'\n"
    assert (result.returncode, result.stdout, result.stderr) == (1, "", told)


def test_list_and_show_import_no_pydantic() -> None:
    """The modules of `list` and `show` import no pydantic. Since 0.29, typer does so when it reads arguments."""
    code = (
        "import sys; from trace_recorder.cli.app import app_for\n"
        "app_for(['list']); app_for(['show']); print('pydantic' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_a_command_imports_no_other_command() -> None:
    """`list` imports neither recording nor exporting, so that it starts quickly."""
    code = "import sys; from trace_recorder.cli.app import app_for; app_for(['list']); print(*sys.modules)"

    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    rooms = {".".join(name.split(".")[:2]) for name in loaded if name.startswith("trace_recorder.")}
    assert (
        rooms & {f"trace_recorder.{room}" for room in ("attach", "capture", "recording", "rerun", "clients")} == set()
    )


@pytest.mark.parametrize(
    ("arguments", "left_out"),
    [
        (["--version"], ["typer", "rich"]),
        (["list"], ["trace_recorder.reading.fold", "trace_recorder.storage.items", "runpy"]),
        (["show"], ["trace_recorder.cli.list_runs", "trace_recorder.formats.toolbrain.turns"]),
    ],
    ids=["version", "list", "show"],
)
def test_unneeded_modules_are_not_imported(arguments: list[str], left_out: list[str], tmp_path: Path) -> None:
    """`--version` imports no command line, a list of ended runs no reader of journals, and `show` no list."""
    run = recorded.by_hand(tmp_path)
    given = arguments + {"list": [str(tmp_path)], "show": [str(run)]}.get(arguments[0], [])
    code = (
        f"import sys; sys.argv[1:] = {given!r}; from trace_recorder.cli import main\n"
        "try: main()\nfinally: print(*sys.modules, sep='\\n')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "trace_recorder.cli.entry" in done.stdout.splitlines()
    assert not {*left_out} & {*done.stdout.splitlines()}
