"""Starts recording, replay or fork in every Python process of the agent, which imports this file at its start.

A process is recorded if it uses HTTP. Replay and fork begin at the start of a process, because its tools may run before
its first HTTP request. This directory is first on PYTHONPATH. It hides the user's own `sitecustomize`, which runs after
this file. `sys.path` is then as it would be without this directory. A process that imports no HTTP library pays only
for this file, because slow imports are made where they are needed. If the process cannot import the package, it is
imported from the place of this file. The process may also have a Python that is too old for the package.
"""

# ruff: noqa: PLC0415 - see above

import os
import sys
from importlib.machinery import PathFinder

HERE = os.path.dirname(os.path.realpath(__file__))  # noqa: PTH120 - pathlib is slow to import, in every process
PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))  # noqa: PTH120 - as above
LIBRARIES = ("httpx", "httpx2", "aiohttp", "urllib3")
OLDEST = (3, 11)
RECORD = "TRACE_RECORDER_RUN"
REPLAY = "TRACE_RECORDER_REPLAY"
FORK = "TRACE_RECORDER_FORK"
BOOTSTRAPS = {
    RECORD: "trace_recorder.attach.subprocess.bootstrap",
    REPLAY: "trace_recorder.rerun.subprocess.bootstrap",
    FORK: "trace_recorder.rerun.subprocess.fork_bootstrap",
}
"""The module that begins in this process, by the environment variable that requests it."""
started = set()  # type: ignore[var-annotated] # noqa: RUF100 - it runs in any Python


class FirstFinder:
    """A finder of modules that precedes the others until an HTTP library is imported."""

    def find_spec(self, name, path=None, target=None):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201, ARG002, RUF100 - it runs in any Python
        """Begin to record, then let the other finders find the module."""
        if name not in LIBRARIES:
            return None
        if self in sys.meta_path:
            sys.meta_path.remove(self)
            begin(*BOOTSTRAPS)
        import importlib.util

        return importlib.util.find_spec(name)


def begin(*orders: str) -> None:
    """Start the recording, replay or fork that the parent process asked for, unless it has started.

    Report why if that fails.
    """
    import importlib.util

    requested = [order for order in orders if order in os.environ and order not in started]
    started.update(requested)
    if requested and sys.version_info < OLDEST:
        refuse("it must be 3.11 or newer")
        return
    for order in requested:
        try:
            if importlib.util.find_spec("trace_recorder") is None:
                import_from_here()
            bootstrap = importlib.import_module(BOOTSTRAPS[order])
        except ImportError as error:
            refuse(str(error))
        else:
            bootstrap.begin()


def refuse(why: str) -> None:
    """Report that this process is not recorded.

    If it should have been replayed or forked, end it before it calls a model.
    """
    version = ".".join(map(str, sys.version_info[:2]))
    done = "replay" if REPLAY in os.environ else "fork" if FORK in os.environ else "record"
    sys.stderr.write("trace-recorder: Python " + version + " cannot " + done + " this process: " + why + "\n")
    if REPLAY in os.environ or FORK in os.environ:
        raise SystemExit(1)


def import_from_here() -> None:
    """Import the package, and nothing else, from the place where it is installed."""
    import importlib.util

    origin = os.path.join(PACKAGE, "__init__.py")  # noqa: PTH118 - as above
    spec = importlib.util.spec_from_file_location("trace_recorder", origin, submodule_search_locations=[PACKAGE])
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["trace_recorder"] = module
        spec.loader.exec_module(module)


def run_users_sitecustomize() -> None:
    """Remove this directory from `sys.path`, and run the user's own `sitecustomize`, if any."""
    sys.path[:] = [path for path in sys.path if os.path.realpath(path) != HERE]
    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        import importlib.util

        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if sys.version_info >= OLDEST:
    begin(REPLAY, FORK)
if any(library in sys.modules for library in LIBRARIES):
    begin(*BOOTSTRAPS)
else:
    sys.meta_path.insert(0, FirstFinder())
run_users_sitecustomize()
