"""Starts recording, replay or fork in every Python process of the agent, which imports this file at its start.

Recording starts when the process imports an HTTP library. Replay and fork start at once, because tools may run before
the first HTTP request. This directory is first on PYTHONPATH, so Python imports this file in place of the user's own
`sitecustomize`. At its end, this file removes the directory from `sys.path`, and runs the user's file. Slow imports are
inside functions, so a process that imports no HTTP library pays only for this file. If the process cannot find
`trace_recorder`, this file imports the package to which it belongs. The process may also have a Python that is too old
for the package.
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
"""Maps each environment variable to the module whose `begin` does what the variable requests."""
started = set()  # type: ignore[var-annotated] # noqa: RUF100 - it runs in any Python


class FirstFinder:
    """A finder of modules that is the first in `sys.meta_path` until an HTTP library is imported."""

    def find_spec(self, name, path=None, target=None):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201, ARG002, RUF100 - it runs in any Python
        """If the module is an HTTP library, start what the environment requests.

        Then let the other finders find the module.
        """
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
    """Write to standard error why this process is not recorded.

    If a replay or a fork was requested, end the process before it calls a model.
    """
    version = ".".join(map(str, sys.version_info[:2]))
    done = "record"
    if REPLAY in os.environ:
        done = "replay"
    elif FORK in os.environ:
        done = "fork"
    sys.stderr.write("trace-recorder: Python " + version + " cannot " + done + " this process: " + why + "\n")
    if REPLAY in os.environ or FORK in os.environ:
        raise SystemExit(1)


def import_from_here() -> None:
    """Import the package to which this file belongs, without making other packages beside it importable."""
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
