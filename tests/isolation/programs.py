"""Small programs for `test_whose_run.py`: scripts, services and a notebook, each run in a process of its own.

Every program asks through clients at module level, which follow the context.
"""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import httpx

import trace_recorder
from trace_recorder import TrajectoryRecorder

URL = os.environ["PROVIDER"]
client = trace_recorder.wrap(httpx.Client(base_url=URL, trust_env=False))
async_client = trace_recorder.wrap(httpx.AsyncClient(base_url=URL, trust_env=False))
pool = ThreadPoolExecutor(2)


def body(question: str) -> dict[str, object]:
    return {"model": "m", "messages": [{"role": "user", "content": question}]}


def ask(question: str) -> None:
    client.post("/v1/chat/completions", json=body(question)).raise_for_status()


async def ask_async(question: str) -> None:
    (await async_client.post("/v1/chat/completions", json=body(question))).raise_for_status()


def in_thread(function: Callable[..., object], *arguments: object) -> None:
    thread = threading.Thread(target=function, args=arguments)
    thread.start()
    thread.join()


# ── scripts: no call is lost ─────────────────────────────────────────────────────────────────────────────────────────


def tasks_one_after_another() -> None:
    for number in range(10):
        with TrajectoryRecorder(task=f"task {number}"):
            ask("directly")
            list(pool.map(ask, ["in the pool", "in the pool"]))


def asyncio_script() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with TrajectoryRecorder(task="script"):
            await ask_async("in the main task")
            await asyncio.create_task(ask_async("in a task"))
            await asyncio.to_thread(ask, "in to_thread")
            await loop.run_in_executor(None, ask, "in the executor")
            await loop.run_in_executor(pool, ask, "in the pool")

    asyncio.run(main())


def loop_script() -> None:
    async def main() -> None:
        with TrajectoryRecorder(task="script"):
            await asyncio.get_running_loop().run_in_executor(pool, ask, "in the pool")

    asyncio.new_event_loop().run_until_complete(main())


def trio_script() -> None:
    import trio  # no other program needs it

    async def main() -> None:
        with TrajectoryRecorder(task="script"):
            await trio.to_thread.run_sync(pool.submit(ask, "in the pool").result)

    trio.run(main)


def callbacks_and_generators() -> None:
    def called_back(_: Future[int]) -> None:
        ask("in a callback")

    def answers() -> Iterator[str]:
        ask("in a generator")
        yield "answer"

    with TrajectoryRecorder(task="script"):
        release = threading.Event()
        done = pool.submit(release.wait)
        done.add_done_callback(called_back)  # type: ignore[arg-type]
        release.set()
        pool.submit(list, answers()).result()
        pool.submit(int).result()
        pool.shutdown()


def marks_in_a_thread() -> None:
    with TrajectoryRecorder(task="script"):
        in_thread(mark, "marked")


def mark(topic: str) -> None:
    """Make every kind of mark, and a call inside of them."""

    @trace_recorder.tool
    def search(text: str) -> str:
        return text

    with trace_recorder.agent("researcher"), trace_recorder.step():
        with trace_recorder.tool_call("look", {"at": topic}):
            search(topic)
        ask(topic)
        trace_recorder.annotate("topic", topic)
        trace_recorder.reward("found", True)


def instrumented_script() -> None:
    trace_recorder.instrument()
    plain = httpx.Client(base_url=URL, trust_env=False)
    with TrajectoryRecorder(task="script"):
        pool.submit(plain.post, "/v1/chat/completions", json=body("in the pool")).result()


def notebook() -> None:
    """Run the cells of a notebook as its kernel does: each in a task of its own, in one loop that runs forever."""
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    shell.user_ns |= {name: value for name, value in globals().items() if not name.startswith("__")}
    loop = asyncio.new_event_loop()

    async def run(cell: str, *, awaits: bool) -> None:
        if awaits:
            transformed = shell.transform_cell(cell)
            result = await loop.create_task(shell.run_cell_async(cell, transformed_cell=transformed))
        else:
            result = shell.run_cell(cell)
        result.raise_error()

    async def cells() -> None:
        for cell in (
            "recorder = TrajectoryRecorder(task='notebook'); _ = recorder.start(); ask('in its own cell')",
            "await ask_async('in a later cell')",
            "ask('in a cell without await')",
            "await asyncio.get_running_loop().run_in_executor(pool, ask, 'in the pool')",
            "_ = await asyncio.gather(ask_async('gathered'))",
            "recorder.finalize()",
        ):
            await asyncio.create_task(run(cell, awaits="await" in cell))

    ran = loop.create_task(cells())
    ran.add_done_callback(lambda _: loop.stop())
    loop.run_forever()
    ran.result()


# ── services: no call is in another's run ────────────────────────────────────────────────────────────────────────────


async def two_requests(recorded: Callable[[asyncio.Event, asyncio.Event], object], other: object) -> None:
    """Handle two requests at once, each in a task: while the first one's run is open, the other one asks."""
    is_open, may_end = asyncio.Event(), asyncio.Event()

    async def second() -> None:
        await is_open.wait()
        await other()  # type: ignore[operator]
        may_end.set()

    await asyncio.gather(asyncio.create_task(recorded(is_open, may_end)), asyncio.create_task(second()))  # type: ignore[arg-type]


async def alice(is_open: asyncio.Event, may_end: asyncio.Event) -> None:
    async with TrajectoryRecorder(task="alice"):
        await ask_async("alice's first")
        is_open.set()
        await may_end.wait()
        await ask_async("alice's second")


def service() -> None:
    async def bob() -> None:
        await ask_async("bob's secret")
        await asyncio.to_thread(ask, "bob's secret")
        await asyncio.get_running_loop().run_in_executor(pool, ask, "bob's secret")
        await asyncio.get_running_loop().run_in_executor(pool, mark, "bob's secret")
        await async_client.post("/v1/unknown", json={})

    asyncio.run(two_requests(alice, bob))


def service_with_callbacks() -> None:
    """The run of a handler that is not a task, but a callback of the loop."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        recorder = TrajectoryRecorder(task="alice")
        contextvars.Context().run(loop.call_soon, recorder.start)
        await asyncio.sleep(0)
        await ask_async("bob's secret")
        recorder.finalize()

    asyncio.run(main())


def service_in_threads() -> None:
    is_open, may_end = threading.Event(), threading.Event()

    def recorded() -> None:
        with TrajectoryRecorder(task="alice"):
            ask("alice's first")
            is_open.set()
            may_end.wait()

    first = threading.Thread(target=recorded)
    first.start()
    is_open.wait()
    in_thread(ask, "bob's secret")
    ask("bob's secret")
    may_end.set()
    first.join()


def several_runs() -> None:
    other = TrajectoryRecorder(task="other")
    contextvars.copy_context().run(other.start)
    with TrajectoryRecorder(task="script"):
        ask("directly")
        in_thread(mark, "whose?")
        other.finalize()
        in_thread(ask, "whose?")


def run_after_several() -> None:
    with TrajectoryRecorder(task="first"), TrajectoryRecorder(task="second"):
        pass
    with TrajectoryRecorder(task="script"):
        ask("directly")
        in_thread(ask, "whose?")


def embedded_server() -> None:
    """The main thread handles a request outside of the main module, as in a server that embeds Python."""
    is_open, may_end = threading.Event(), threading.Event()

    def bob() -> None:
        is_open.wait()
        ask("bob's secret")
        may_end.set()

    threading.Thread(target=bob, daemon=True).start()

    @atexit.register
    def handle() -> None:
        with TrajectoryRecorder(task="alice"):
            ask("alice's first")
            is_open.set()
            may_end.wait()


def dependency() -> None:
    """The run begins in a context that the handler does not see. The handler opens a step of it."""
    recorder = TrajectoryRecorder(task="request")

    async def handler() -> None:
        await ask_async("outside of the step")
        with recorder.step():
            await ask_async("in the step")
            await asyncio.to_thread(ask, "in the step's thread")

    async def main() -> None:
        await asyncio.to_thread(recorder.start)
        await asyncio.gather(handler())
        recorder.finalize()

    asyncio.run(main())


def bound_client() -> None:
    with TrajectoryRecorder(task="script") as recorder:
        bound = recorder.wrap(httpx.Client(base_url=URL, trust_env=False))
        pool.submit(bound.post, "/v1/chat/completions", json=body("in the pool")).result()
