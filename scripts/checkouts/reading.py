"""Reads runs with one checkout, for `compare-checkouts`, which starts this file with the checkout's own Python.

    python reading.py CHECKOUT JOBS RESULTS FIRST

JOBS is a JSON list. A job is `{"file": PATH, "as": "journal" | "document" | "import", "level": "full" | "short"}`. For
each job from number FIRST on, a pickle in RESULTS has the outputs by name, as bytes, and then a line on stdout has the
number. What a job does is in a directory of its own, with fixed names, so that outputs have no paths of chance.

Outputs use the command line, `load`, `to_document` and `trace_recorder.registry`. The outputs that need an inside of
the package are made by `insides`, and by nothing else.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import re
import runpy
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from earlier_names import module  # noqa: E402 - the folder is not a package

Payload = Any
Output = Callable[[], Payload]

MAX_IMPORTED = 5
"""At most this many runs of an imported file are read in every way. Their journals are all compared."""
LARGE_CALLS = 25
"""A run with more calls than this is exported in the default form of each format only, and not in `LARGE_EXPORTS`."""
LARGE_EXPORTS = frozenset({"toolbrain"})
"""Formats that write the whole prompt of each call."""
MAX_CPU_SECONDS = 100
"""The operating system ends the process if one job takes more time of the processor than this."""
_MEMORY_ADDRESS = re.compile(rb"\bat 0x[0-9a-f]+")


def text_of(value: Payload) -> bytes:
    """Return an output as bytes. Lines of JSON and texts stay as they are, and any other value becomes JSON."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace")
    text = json.dumps(value, ensure_ascii=False, indent=1, default=_plain)
    return text.encode("utf-8", "backslashreplace")


def _plain(value: Payload) -> Payload:
    """Return a value that JSON can express. An iterator becomes a list."""
    if isinstance(value, bytes):
        return value.hex()
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, set | frozenset):
        return sorted(map(repr, value))
    try:
        return list(value)
    except TypeError:
        return repr(value)


def made(outputs: Iterator[tuple[str, Output]]) -> dict[str, bytes]:
    """Make outputs. An exception is an output too."""
    results = {}
    for name, output in outputs:
        made_now: Payload = None
        try:
            made_now = output()
            result = text_of(made_now)
        except Exception as error:  # noqa: BLE001 - it is the output
            result = f"raises {type(error).__name__}: {error}".encode("utf-8", "backslashreplace")
        results[name] = _MEMORY_ADDRESS.sub(b"at 0x1", result)
        if isinstance(made_now, Printed):
            results[f"{name}, exit code and stderr"] = text_of(made_now.rest)
    return results


class Printed(str):
    """What a command printed to stdout. `rest` has its exit code, and what it printed to stderr."""

    __slots__ = ("rest",)
    rest: str


def command(*arguments: object) -> Printed:
    """Run `python -m trace_recorder` in this process, and return what it printed and its exit code."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    sys.argv = ["trace-recorder", *map(str, arguments)]
    code: object = 0
    with redirect_stdout(out), redirect_stderr(err):
        try:
            runpy.run_module("trace_recorder", run_name="__main__", alter_sys=True)
        except SystemExit as error:
            code = error.code
        except Exception:  # noqa: BLE001 - it is the output
            code = traceback.format_exc(limit=-1)
    texts = [stream.buffer.getvalue().decode("utf-8", "replace") for stream in (out, err)]
    printed = Printed(texts[0])
    printed.rest = f"exit code {code}\n{texts[1]}"
    return printed


# ── the outputs of a run ─────────────────────────────────────────────────────────────────────────────────────────────


def outputs_of(path: Path, level: str) -> Iterator[tuple[str, Output]]:
    """Yield what is read of a run, by name."""
    from trace_recorder import load

    loaded: list[Payload] = []

    def run() -> Payload:
        if not loaded:
            loaded.append(load(path))
        return loaded[0]

    yield "document, inline", lambda: json.dumps(run().to_document("inline"), ensure_ascii=False, indent=1)
    if path.suffix == ".jsonl":
        yield "recover", lambda: command("recover", "--force", path)
        yield "document, as recover writes it", path.with_suffix(".json").read_bytes
    yield "validate", lambda: command("validate", "--json", path)
    yield "show --full", lambda: command("show", "--full", path)
    if level == "short":
        return
    yield "document, delta", lambda: json.dumps(run().to_document("delta"), ensure_ascii=False, indent=1)
    for arguments in (["show"], ["show", "--errors"], ["show", "--turns"], ["show", "--json"], ["stats", "--json"]):
        yield " ".join(arguments), lambda arguments=arguments: command(*arguments, path)
    for number in (1, 2, 3):
        yield f"show --raw --step {number}", lambda number=number: command("show", "--raw", "--step", number, path)
    yield "list --json", lambda: command("list", "--json", path)
    yield "grep", lambda: command("grep", "--json", "e", path)
    yield from insides(path, run)
    with suppress(Exception):  # the first output has the error
        yield from exports(run)


def exports(run: Output) -> Iterator[tuple[str, Output]]:
    """Yield every export format in each of its forms and with each of its options, through the registry.

    A run that cannot be loaded has no exports.
    """
    from trace_recorder.registry import EXPORT_FORMATS

    is_large = len(run().llm_interactions) > LARGE_CALLS
    for name, export_format in EXPORT_FORMATS.items():
        if is_large and name in LARGE_EXPORTS:
            continue
        for form in (None, *(() if is_large else export_format.forms)):
            yield f"export {name} {form or ''}".strip(), lambda name=name, form=form: exported(name, run(), form)
        for option in sorted(export_format.options):
            title = f"export {name} with {option}"
            yield title, lambda name=name, option=option: exported(name, run(), None, **{option: option != "content"})


def exported(name: str, run: Payload, form: str | None, **options: bool) -> Payload:
    """Return the pieces of an export, what it left out, and the files that it wrote beside them."""
    output_place = module("trace_recorder.formats.format_writer").OutputPlace
    from trace_recorder.registry import EXPORT_FORMATS

    with tempfile.TemporaryDirectory() as directory:
        view = EXPORT_FORMATS[name].with_options(form, **options)
        pieces, left_out = EXPORT_FORMATS[name].outputs(view, run, output_place("run", Path(directory)))
        contents = [(title, _unpacked(content)) for title, content in pieces]
        files = {str(path.relative_to(directory)): path.read_bytes().hex() for path in files_in(Path(directory))}
    return {"pieces": contents, "left out": dict(left_out), "files": files}


def _unpacked(content: Payload) -> Payload:
    """Return the members of a zip file by name, because the file itself has the time at which it was made."""
    if not isinstance(content, bytes) or not content.startswith(b"PK"):
        return content
    from zipfile import ZipFile

    with ZipFile(io.BytesIO(content)) as file:
        return {name: file.read(name).decode("utf-8", "backslashreplace") for name in file.namelist()}


def files_in(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*") if path.is_file())


def insides(path: Path, run: Output) -> Iterator[tuple[str, Output]]:
    """Yield the outputs that need names inside the package. A name that is gone is reported as a difference."""

    def viewer() -> Payload:
        from trace_recorder.viewer.one_file import run_data

        return run_data(run(), "run")

    def searched_values() -> Payload:
        from trace_recorder.catalog.run_values import values_of

        return asdict(values_of(run()))

    def replayed() -> Payload:
        from trace_recorder.rerun.recorded import Recording

        recorded = Recording(path)
        return [
            [recorded.request(one), recorded.body(one), recorded.chunks(one), one.headers, one.error, one.seconds]
            for one in recorded.exchanges
        ]

    def growing() -> Payload:
        return read_in_parts(path, module("trace_recorder.reading.growing_journal").GrowingJournal)

    yield "viewer", viewer
    yield "searched values", searched_values
    if path.suffix == ".jsonl":
        yield "replay's recording", replayed
        yield "growing journal", growing


def read_in_parts(path: Path, growing_journal: Callable[[Path], Payload]) -> Payload:
    """Read a journal that grows by a fourth of its records each time, and return the document of each reading."""
    lines, copy = path.read_bytes().splitlines(keepends=True), path.with_name("growing.jsonl")
    documents = []
    journal = growing_journal(copy)
    for part in (1, 2, 3, 4):
        copy.write_bytes(b"".join(lines[: (len(lines) * part + 3) // 4]))
        journal.read_more()
        documents.append(journal.trajectory().to_document("delta"))
    copy.unlink()
    return documents


# ── jobs ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def results_of(job: dict[str, str]) -> dict[str, bytes]:
    """Return the outputs of a job by name. The current directory is empty."""
    file = Path(job["file"])
    if job["as"] == "import":
        return imported(file)
    suffix = ".jsonl" if job["as"] == "journal" else ".json"
    target = Path("run").with_suffix(suffix)
    shutil.copy(file, target)
    return made(outputs_of(target, job["level"]))


def imported(source: Path) -> dict[str, bytes]:
    """Return what is imported of a file or a directory of another tool, and what is read of each imported run.

    Only the own document of each run and a few of its exports are compared beside its journal.
    """
    from trace_recorder import load

    out = Path("runs")
    results = made(iter([("import", lambda: command("import", source, "-o", out))]))
    if source.is_file():
        load_document = lambda: json.dumps(load(source).to_document("inline"), ensure_ascii=False, indent=1)  # noqa: E731
        results |= made(iter([("load", load_document)]))
    files = files_in(out)
    results["imported files"] = "\n".join(map(str, files)).encode()
    for path in files:
        results[f"imported {path.suffix.removeprefix('.')} of {path.stem}"] = path.read_bytes()
    for path in [path for path in files if path.suffix == ".jsonl"][:MAX_IMPORTED]:
        results |= {f"{name} of {path.stem}": value for name, value in made(outputs_of(path, "full")).items()}
    return results


def check_package(checkout: str) -> None:
    """Stop if the package is not the checkout's own."""
    import trace_recorder

    if not trace_recorder.__file__.startswith(f"{checkout}/"):
        sys.exit(f"{trace_recorder.__file__} is not in {checkout}")


def main() -> None:
    """Do jobs, and say of each when it is done."""
    checkout, jobs_file, results, first = sys.argv[1:]
    sys.path[0] = checkout
    check_package(checkout)
    jobs = json.loads(Path(jobs_file).read_bytes())
    answers, sys.stdout = sys.stdout, sys.stderr
    for number in range(int(first), len(jobs)):
        signal.setitimer(signal.ITIMER_VIRTUAL, MAX_CPU_SECONDS)
        with tempfile.TemporaryDirectory() as directory:
            os.chdir(directory)
            outputs = {
                name: value.replace(directory.encode(), b"/here") for name, value in results_of(jobs[number]).items()
            }
            os.chdir("/")
        Path(results, f"{number}.pickle").write_bytes(pickle.dumps(outputs))
        print(number, file=answers, flush=True)


if __name__ == "__main__":
    main()
