"""The names that can be chosen: every workload and every contender."""

from __future__ import annotations

from benchmarks.at_once import Agents
from benchmarks.contenders import OWN, Unrecorded
from benchmarks.peers import PEERS
from benchmarks.very_long import VeryLong
from benchmarks.workloads import Conversation, Streams, TinyCalls

BASE = "unrecorded"
PEERS_BASE = "unrecorded-peers"
CONTENDERS: dict[str, type[Unrecorded]] = OWN | PEERS
ALL_AGAIN = frozenset({"whole-file"})
SLOW = ALL_AGAIN | {"mlflow"}

WORKLOADS = {
    one.name: one
    for one in (
        Conversation("turns-10", "10 turns of 4 KB", calls=10, laps=12, quick=10, counted=10),
        Conversation("turns-50", "50 turns of 4 KB", calls=50, laps=5, quick=20, counted=50),
        Conversation("turns-200", "200 turns of 4 KB", calls=200, laps=1, quick=50),
        Conversation("mb", "1 MB of history with each call", calls=20, laps=4, quick=5, counted=10, before=1_000_000),
        TinyCalls("tiny", "tiny calls over a mock transport", calls=2000, laps=2, quick=50, counted=300, mocked=True),
        Streams("stream", "streams of 500 chunks", calls=10, laps=4, quick=3),
        Agents("agents", "32 async agents at once", calls=640, laps=1, quick=64, excludes=ALL_AGAIN),
        Agents(
            "agents-mb",
            "4 async agents, 1 MB of history each",
            calls=40,
            laps=2,
            quick=8,
            agents=4,
            pause=0.4,
            before=1_000_000,
            excludes=ALL_AGAIN,
        ),
        VeryLong(
            "long",
            "10,000 calls in one run, 50 messages of 1 KB at most",
            calls=10_000,
            laps=1,
            quick=200,
            mocked=True,
            rounds=1,
            excludes=SLOW,
        ),
    )
}
