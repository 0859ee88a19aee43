"""The version matrix: every shape of client, on the oldest and the newest of each SDK and of Python.

    nox                                    # all of it; interpreters that are not at hand are skipped
    nox -l                                 # the names of the sessions
    nox -s "versions-3.13(openai 3)"       # one of them
    nox -t newest                          # the newest of each SDK alone

`docs/versions.md` holds the results. A row of the table here is what pip is asked for: `openai<2` is the newest 1.x.
"""

import nox

PYTHONS = ("3.11", "3.12", "3.13")
OLDEST = {
    "openai 1.17": ("openai==1.17.0", "httpx<0.28"),  # until 1.55 it makes httpx clients with `proxies=`
    "anthropic 0.19": ("anthropic==0.19.0", "httpx<0.28"),  # likewise until 0.40
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

nox.needs_version = ">=2024.3.2"
nox.options.envdir = ".venv-nox"


@nox.session(python=PYTHONS, venv_backend="venv")
@nox.parametrize("requirements", ROWS)
def versions(session: nox.Session, requirements: tuple[str, ...]) -> None:
    """Run the shapes of client on one set of versions."""
    session.install("--quiet", "-e.", "hypothesis", "pytest>=8.2", *requirements)
    session.run("pytest", "tests/versions", *session.posargs)
