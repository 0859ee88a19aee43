"""The zygote, a process from which agents are forked, and the ways of dying that need the process itself.

Run as a program with the number of a socket and the address of a model, it imports everything and calls the model once,
so that the first call of an agent costs no more than the others. It has no recorder. For each job that it receives,
with a pipe for the agent's reports and a file for its complaints, it forks an agent and sends its pid. If asked to, it
waits for the agent's end and sends the exit code.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import sys

import openai

from tests.faults.agent import Agent, Job

EXIT_CODE = 3


def _become_mortal(dying: str) -> None:
    """Prepare the ways of dying that need the process itself. They come at any moment of the main thread."""
    if dying == "os._exit":
        signal.signal(signal.SIGUSR1, lambda *_: os._exit(EXIT_CODE))
    if dying.startswith("SystemExit"):
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(EXIT_CODE))


def _warm_up(address: str) -> None:
    """Do the most expensive work once, because the SDK builds its models with the first call."""
    ask = {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "warm up"}]}
    with openai.OpenAI(api_key="k", base_url=address, max_retries=0) as client:
        client.chat.completions.create(**ask)  # type: ignore[call-overload]
        list(client.chat.completions.create(stream=True, **ask))  # type: ignore[call-overload]

    async def once() -> None:
        async with openai.AsyncOpenAI(api_key="k", base_url=address, max_retries=0) as client:
            await client.chat.completions.create(**ask)  # type: ignore[call-overload]

    asyncio.run(once())
    gc.collect()
    gc.freeze()


def main(channel: socket.socket, address: str) -> None:
    """Fork an agent for each job. An agent leaves by dying."""
    _warm_up(address)
    channel.send(b"ready")
    while True:
        message, pipes, _, _ = socket.recv_fds(channel, 65536, 2)
        if not message:
            return
        job, (reports, errors) = Job.read(message), pipes
        pid = os.fork()
        if pid == 0:
            channel.close()
            os.dup2(errors, sys.stderr.fileno())
            _become_mortal(job.dying)
            Agent(job, reports).run()
            return
        os.close(reports)
        os.close(errors)
        channel.send(b"%d" % pid)
        channel.recv(1)  # until the wait, the dead process keeps its pid
        channel.send(b"%d" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])), sys.argv[2])
