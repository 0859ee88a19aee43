"""The version matrix, every shape of client on the oldest and the newest of each SDK and of Python; and the readers.

    nox                                    # all of it; interpreters that are not at hand are skipped
    nox -l                                 # the names of the sessions
    nox -s "versions-3.13(openai 3)"       # one of them
    nox -t newest                          # the newest of each SDK alone
    nox -fb uv                             # with uv, where that is installed: a tenth of the time

    nox -s readers                         # the real readers of the views' formats, each in an environment of its own
    nox -s readers -- atif trl             # some of them

Each session of the matrix adds its line to `.venv-nox/results.md`; `docs/versions.md` holds those of the last whole
run. A row of the table here is what pip is asked for: `openai<2` is the newest 1.x. OLDEST is what pyproject.toml says
is supported. The readers' table goes to `.venv-nox/readers.md`, and stands in `docs/views/readers.md`.
"""

import re
from pathlib import Path

import nox

PYTHONS = ("3.11", "3.12", "3.13")
OLDEST = {
    "openai 1.17": ("openai==1.17.0", "httpx<0.28"),  # until 1.55 it makes httpx clients with `proxies=`
    "anthropic 0.16": ("anthropic==0.16.0", "httpx<0.28"),  # likewise until 0.40
    "google-genai 1.24": ("google-genai==1.24.0",),
    "google-genai 1.24, aiohttp": ("google-genai==1.24.0", "aiohttp"),
    "ollama 0.1.3": ("ollama==0.1.3",),
}
BETWEEN = {
    "openai 1": ("openai[aiohttp]<2",),
    "openai 2.0": ("openai==2.0.0",),
    "openai 2": ("openai[aiohttp]<3",),
    "openai 3.0": ("openai==3.0.0",),
    "anthropic 0": ("anthropic[aiohttp]<1",),
    "anthropic 1.0": ("anthropic==1.0.0",),
    "anthropic 1": ("anthropic[aiohttp]<2",),
    "anthropic 2.0": ("anthropic==2.0.0",),
    "google-genai 1": ("google-genai<2",),
    "google-genai 1, aiohttp": ("google-genai[aiohttp]<2",),
    "google-genai 2.0": ("google-genai==2.0.0",),
    "google-genai 2": ("google-genai<3",),
    "google-genai 2, aiohttp": ("google-genai[aiohttp]<3",),
    "google-genai 3.0": ("google-genai==3.0.0",),
    "google-genai 3.0, aiohttp": ("google-genai==3.0.0", "aiohttp"),
    "ollama 0.4.0": ("ollama==0.4.0",),
}
NEWEST = {
    "openai 3": ("openai",),
    "openai 3, aiohttp": ("openai[aiohttp]", "httpx"),
    "anthropic 2": ("anthropic",),
    "anthropic 2, aiohttp": ("anthropic[aiohttp]", "httpx"),
    "google-genai 3": ("google-genai",),
    "google-genai 3, aiohttp": ("google-genai[aiohttp]", "httpx"),
    "ollama 0": ("ollama",),
    "all together": ("openai[aiohttp]", "anthropic[aiohttp]", "google-genai[aiohttp]", "ollama"),
}
ROWS = [
    nox.param(requirements, id=name, tags=[tag])
    for tag, rows in {"oldest": OLDEST, "between": BETWEEN, "newest": NEWEST}.items()
    for name, requirements in rows.items()
]

RESULTS = Path(".venv-nox", "results.md")
INSTALLED = """
from importlib.metadata import distributions
names = "openai anthropic google-genai ollama httpx httpx2 aiohttp httpx-aiohttp".split()
found = {one.name: one.version for one in distributions()}
print(", ".join(f"{name} {found[name]}" for name in names if name in found))
"""

nox.needs_version = ">=2024.3.2"
nox.options.envdir = ".venv-nox"
nox.options.sessions = ["versions"]


@nox.session(python=PYTHONS, venv_backend="venv")
@nox.parametrize("requirements", ROWS)
def versions(session: nox.Session, requirements: tuple[str, ...]) -> None:
    """Run the shapes of client on one set of versions."""
    session.install("--quiet", "-e.", "hypothesis", "pytest>=8.2", *requirements)
    installed = session.run("python", "-c", INSTALLED, silent=True)
    said = session.run("pytest", "tests/versions", *session.posargs, silent=True, success_codes=[0, 1])
    counts = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|error|skipped)", said)}
    failed = counts.get("failed", 0) + counts.get("error", 0)
    name = re.search(r"\((.*)\)", session.name)[1].strip("'\"")
    cells = (name, session.python, installed.strip(), counts.get("passed", 0), failed, counts.get("skipped", 0))
    with RESULTS.open("a") as file:
        file.write(f"| {' | '.join(map(str, cells))} |\n")
    if failed or "passed" not in counts:
        session.error(said)


@nox.session(venv_backend="venv")
def readers(session: nox.Session) -> None:
    """Have the real readers of our views' formats read runs of every shape: tests/readers/ says how."""
    session.install("--quiet", "-e.[all]", "httpx", "httpx2", "hypothesis", "pytest>=8.2")
    session.run("python", "-m", "tests.readers", *session.posargs)
