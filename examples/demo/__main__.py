"""The demo.

Run it from the root of the repository: `python -m examples.demo`. Without arguments it needs neither keys nor a
network, because a provider of its own on 127.0.0.1 answers. With `--provider` it makes one run at the real provider,
with the key in the environment.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path

from examples.demo.killed import FINISHED_CALLS, ChildError, run_and_kill
from examples.demo.local_provider import LocalProvider
from examples.demo.recorded import Recording, record
from examples.demo.runs import LOOPS, Form, Job
from examples.demo.showing import program, show

FORMS: tuple[Form, ...] = ("sync", "async", "streaming")
RUNS: list[tuple[str, Form]] = [(sdk, form) for sdk in ("openai", "anthropic", "google", "ollama") for form in FORMS]
RUNS.append(("openai-responses", "streaming"))
REFUSED_ONCE = ("openai", "sync")

KEYS = {
    "openai": ("OPENAI_API_KEY",),
    "openai-responses": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "google": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "ollama": (),
}
"""The variables of each provider's key. One of them must be set. A local Ollama needs none."""


def main(arguments: list[str] | None = None) -> int:
    """Run the demo. Return 0 if every run succeeded."""
    parser = _parser()
    options = parser.parse_args(arguments)
    directory = options.directory or Path("trajectories") / f"demo_{datetime.now():%Y%m%d_%H%M%S}"
    if options.provider is None:
        if options.model or options.form or options.thinking:
            parser.error("--model, --form and --thinking belong to --provider; the local demo shows every form")
        return _demo_local(directory)
    names = KEYS[options.provider]
    if names and not any(os.environ.get(name) for name in names):
        parser.error(f"{options.provider} needs a key: set {' or '.join(names)} in the environment")
    if options.model is None:
        parser.error(f"say which of the models of {options.provider} to use: --model NAME")
    form: Form = options.form or "sync"
    return _demo_real(Job(options.provider, form, options.model, thinking=options.thinking), directory)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m examples.demo", description=__doc__.partition("\n\n")[2])
    parser.add_argument("--provider", choices=LOOPS, help="a real provider, instead of the local one")
    parser.add_argument("--model", metavar="NAME", help="the real provider's model")
    parser.add_argument("--form", choices=FORMS, help="how it is called (default: sync)")
    parser.add_argument("--thinking", action="store_true", help="ask for the model's thinking, where it has any")
    parser.add_argument("--directory", type=Path, help="where the trajectories go (default: a new one each time)")
    return parser


def _demo_local(directory: Path) -> int:
    """Record thirteen runs and a killed one, all against the local provider."""
    _bypass_proxies()
    recordings: dict[tuple[str, str], Recording] = {}
    with LocalProvider() as provider:
        print(f"A small agent fixes a small project, {len(RUNS)} times, against the provider at {provider.url}.\n")
        for sdk, form in RUNS:
            recordings[sdk, form] = _run_local(provider, sdk, form, directory)
        print(f"\nOne more, in a process that gets SIGKILL in the middle of call {FINISHED_CALLS + 1} ...", flush=True)
        killed = run_and_kill(provider, directory)
    show("list", directory)
    show("show", killed, "--step", str(FINISHED_CALLS + 1))
    print(f"\nThe trajectories are in {directory}; each is plain JSON. To see the rest:\n")
    print(f"$ {program()} show {killed}    # all steps of the killed run")
    print(
        f"$ {program()} show {directory / recordings[REFUSED_ONCE].path.name}    # step 3 was refused, and sent again"
    )
    print(f"$ {program()} view {directory}    # all runs, in a browser")
    return 0 if all(recording.outcome.success for recording in recordings.values()) else 1


def _run_local(provider: LocalProvider, sdk: str, form: Form, directory: Path) -> Recording:
    before = provider.hits
    if (sdk, form) == REFUSED_ONCE:
        provider.refuse_at(before + 3)
    recording = record(Job(sdk, form, "local-model", provider.url, key="local-key", thinking=True), directory)
    refused = ", one of them refused (429) and sent again" if (sdk, form) == REFUSED_ONCE else ""
    _print_run(sdk, form, recording, f"{provider.hits - before} requests{refused}")
    return recording


def _demo_real(job: Job, directory: Path) -> int:
    """Record one run at a real provider, and show the recording even if the run fails."""
    try:
        recording = record(job, directory)
    finally:
        show("list", directory)
    show("show", recording.path)
    _print_run(job.sdk, job.form, recording, recording.outcome.answer)
    return 0 if recording.outcome.success else 1


def _print_run(sdk: str, form: str, recording: Recording, told: str) -> None:
    verdict = "tests pass" if recording.outcome.success else "TESTS FAIL"
    print(f"{sdk:<17} {form:<10} {verdict}  {recording.path.name}  {told}", flush=True)


def _bypass_proxies() -> None:
    """Keep requests to this machine away from proxies."""
    named = os.environ.get("NO_PROXY") or os.environ.get("no_proxy")
    os.environ["NO_PROXY"] = os.environ["no_proxy"] = f"{named},127.0.0.1" if named else "127.0.0.1"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ImportError as missing:
        sys.exit(f"demo: {missing}; the SDKs come with pip install 'trace-recorder[all]'")
    except (ChildError, subprocess.CalledProcessError) as error:
        sys.exit(f"demo: {error}")
