"""The wheel: built, installed into an empty environment, and used by the README's first example."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
import zipfile
from importlib.metadata import Distribution, distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement

from tests.provider import CHAT, plain, serving
from trace_recorder import __version__, load

ROOT = Path(__file__).parents[1]
PAGE = "trace_recorder/viewer/page/viewer.html"


def first_example() -> str:
    """Return the README's first Python block."""
    block = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    return block[1]


def link_required(package: Distribution, extras: set[str], place: Path) -> None:
    """Link what a package requires, and what that requires, into an environment, from the environment of the tests."""
    for requirement in map(Requirement, package.requires or ()):
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in extras or {""}):
            required = distribution(requirement.name)
            assert requirement.specifier.contains(required.version, prereleases=True), requirement
            names = {file.parts[0] for file in required.files or ()} - {"..", "__pycache__"}
            missing = [name for name in names if not (place / name).exists()]
            for name in missing:
                (place / name).symlink_to(Path(str(required.locate_file(name))))
            if missing:
                link_required(required, requirement.extras, place)


def test_the_wheel_works_in_an_empty_environment(tmp_path: Path, outside_environment: dict[str, str]) -> None:
    """A wheel of this tree, with what its openai extra requires and nothing else, runs the README's first example.

    The pytest plugin is a module of its own in it, and the viewer's built page is there.
    """
    wheels, environment = tmp_path / "wheels", tmp_path / "environment"
    pip = [sys.executable, "-m", "pip", "--quiet"]
    subprocess.run(
        [*pip, "wheel", "--no-deps", "--wheel-dir", str(wheels), str(ROOT)], env=outside_environment, check=True
    )
    [wheel] = wheels.iterdir()
    assert wheel.name.startswith(f"trace_recorder-{__version__}-")
    assert {"pytest_trace_recorder.py", "trace_recorder/py.typed", PAGE} <= set(zipfile.ZipFile(wheel).namelist())
    venv.create(environment, with_pip=False)
    python = str(environment / "bin" / "python")
    install = [*pip, "--python", python, "install", "--no-index", "--no-deps", "--no-compile", str(wheel)]
    subprocess.run(install, env=outside_environment, check=True)
    [place] = environment.glob("lib/*/site-packages")
    [installed] = distributions(name="trace-recorder", path=[str(place)])
    link_required(installed, {"openai"}, place)
    assert (place / "openai").exists()

    with serving(plain(CHAT)) as server:
        keys = {"OPENAI_BASE_URL": f"{server.url}/v1", "OPENAI_API_KEY": "k", "PATH": os.environ["PATH"]}
        subprocess.run([python, "-c", first_example()], cwd=tmp_path, env=keys, check=True)

    [document] = (tmp_path / "trajectories").glob("*.json")
    trajectory = load(document)
    assert (trajectory.task, trajectory.status) == ("fix the failing test", "completed")
    assert [call.response and call.response.content for call in trajectory.llm_interactions] == ["hi"]
