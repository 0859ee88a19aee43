"""Imported by every Python process of the agent's, at its start: it has the process recorded, replayed, or forked.

A process is recorded if it uses HTTP. It is replayed or forked from its start, since its tools may run before it does.

This directory is first on PYTHONPATH. The user's own `sitecustomize`, which it hides, is run after it, and the
process's path is left as it would be without it. A process that imports no HTTP library pays for this file and no
more: what is slow to import is imported where it is needed. It may run in an environment that does not have the
package, which is then imported from where this file is, and in a Python that is too old for that.
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
"""What begins in this process, by the variable of the environment that orders it."""
started = set()  # type: ignore[var-annotated] # noqa: RUF100 - it runs in any Python


class ImportHook:
    """Comes before the other finders of modules until an HTTP library is imported."""

    def find_spec(self, name, path=None, target=None):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201, ARG002, RUF100 - it runs in any Python
        """Begin to record, then find what the others find."""
        if name not in LIBRARIES:
            return None
        if self in sys.meta_path:
            sys.meta_path.remove(self)
            begin(*BOOTSTRAPS)
        import importlib.util

        return importlib.util.find_spec(name)


def begin(*orders: str) -> None:
    """Begin what this process is ordered and has not begun; say so where it cannot be done."""
    import importlib.util

    wanted = [order for order in orders if order in os.environ and order not in started]
    started.update(wanted)
    if wanted and sys.version_info < OLDEST:
        refuse("it has to be 3.11 or newer")
        return
    for order in wanted:
        try:
            if importlib.util.find_spec("trace_recorder") is None:
                import_from_here()
            bootstrap = importlib.import_module(BOOTSTRAPS[order])
        except ImportError as error:
            refuse(str(error))
        else:
            bootstrap.begin()


def refuse(why: str) -> None:
    """Say that this process goes unrecorded; end it where it was to be replayed or forked, before it calls a model."""
    version = ".".join(map(str, sys.version_info[:2]))
    done = "replay" if REPLAY in os.environ else "fork" if FORK in os.environ else "record"
    sys.stderr.write("trace-recorder: Python " + version + " cannot " + done + " this process: " + why + "\n")
    if REPLAY in os.environ or FORK in os.environ:
        raise SystemExit(1)


def import_from_here() -> None:
    """Import the package from where it is installed, and nothing else from there."""
    import importlib.util

    origin = os.path.join(PACKAGE, "__init__.py")  # noqa: PTH118 - as above
    spec = importlib.util.spec_from_file_location("trace_recorder", origin, submodule_search_locations=[PACKAGE])
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["trace_recorder"] = module
        spec.loader.exec_module(module)


def run_users_sitecustomize() -> None:
    """Leave the path as the user made it, and run the `sitecustomize` that is there."""
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
    sys.meta_path.insert(0, ImportHook())
run_users_sitecustomize()
