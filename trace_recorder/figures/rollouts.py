"""Rollouts: the tokens of a run as they were sampled, joined to branches by their ids.

A call extends an earlier call if its prompt begins with exactly the tokens of that call: those of its prompt, and those
of one of its answers. A branch is a path of such calls. Texts are never tokenised, because that may give ids that were
not sampled. So a call without ids is in no branch, and is counted.

An agent that continues its conversation may still send other tokens than the model sampled: a template writes an answer
in another way, or the agent changed its history. Then the branch ends, and `Drift` says why.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from trace_recorder.dialects.dialect import is_turn
from trace_recorder.dialects.json_access import as_text
from trace_recorder.figures.rewards import rewards_of
from trace_recorder.figures.sampled_tokens import Tokens, WeightVersion, tokens_of
from trace_recorder.reading.relations.prompt_relations import turns_of
from trace_recorder.reading.relations.turn import Turn, choice_of
from trace_recorder.values.messages import Payload
from trace_recorder.values.trajectory import Trajectory

Drift = Literal["clean", "realigned", "forked"]
"""How the prompt of a call begins, compared with the call before it in the conversation.

- "clean": with exactly the tokens of that call
- "realigned": with the same messages, but other tokens
- "forked": with other messages
"""
SAMPLING = frozenset(
    {
        *("temperature", "top_p", "top_k", "min_p", "seed", "n", "max_tokens", "max_completion_tokens", "stop"),
        *("presence_penalty", "frequency_penalty", "repetition_penalty", "sampling_params", "logit_bias"),
    }
)
"""The names of the parameters of a request that change what is sampled."""


class SampledAnswer(NamedTuple):
    """An answer of a call: the id of the interaction, and the index of the answer among the answers of the call."""

    interaction_id: str
    choice: int = 0


@dataclass(frozen=True, slots=True)
class TokenSpan:
    """Neighbouring tokens of a branch with one origin.

    `answer` is the answer that the tokens are, or to whose prompt they belong. `logprobs` has a number for each sampled
    token, or is None if the server stated none. `is_shared` is True if an earlier branch has these tokens too, or the
    run whose answers a replay or a fork repeated.
    """

    token_ids: Sequence[int]
    answer: SampledAnswer
    is_sampled: bool = False
    logprobs: Sequence[float] | None = None
    is_shared: bool = False


@dataclass(frozen=True, slots=True)
class TokenBranch:
    """The tokens from the beginning of a prompt to the last answer that extends it. Each list has one element a token.

    >>> branch.token_ids, branch.mask, branch.logprobs
    ([1, 2, 3, 4, 5], [0, 0, 1, 0, 1], [None, None, -0.1, None, -0.7])
    """

    spans: tuple[TokenSpan, ...]

    @property
    def answers(self) -> list[SampledAnswer]:
        """The answers of the branch, in the order of their tokens."""
        return [span.answer for span in self.spans if span.is_sampled]

    @property
    def token_ids(self) -> list[int]:
        """The ids of the tokens."""
        return [identity for span in self.spans for identity in span.token_ids]

    @property
    def mask(self) -> list[int]:
        """1 for each token that a model sampled, and that no earlier branch or run has, otherwise 0."""
        return [int(span.is_sampled and not span.is_shared) for span in self.spans for _ in span.token_ids]

    @property
    def logprobs(self) -> list[float | None]:
        """The log-probability of each sampled token, and None for every other token, and where it was not stated."""
        result: list[float | None] = []
        for span in self.spans:
            result += span.logprobs or [None] * len(span.token_ids)
        return result

    @property
    def interactions(self) -> list[str]:
        """The id of the interaction that sampled each token, or to whose prompt the token belongs."""
        return [span.answer.interaction_id for span in self.spans for _ in span.token_ids]


@dataclass(frozen=True, slots=True)
class RolloutCall:
    """A call of a rollout: how its answer was sampled.

    `sampling` has the parameters of sampling as they were sent. `weight_versions` are of the first answer. `rewards`
    has the rewards of the step that made the call, by name. `drift` is None for the first call of a conversation.
    """

    interaction_id: str
    model: str | None
    finish_reasons: tuple[str | None, ...]
    sampling: dict[str, Payload]
    weight_versions: tuple[WeightVersion, ...]
    rewards: dict[str, float]
    drift: Drift | None
    template: str | None
    """The chat template that the request sent, if any."""


@dataclass(frozen=True, slots=True)
class Rollout:
    """The sampled tokens of one run.

    `group` and `attempt` are the run's metadata of these names. `rewards` are those of the whole run, by name. `calls`
    are the calls that have ids. `without_ids` counts the calls that have none.
    """

    trajectory_id: str | None
    task: str | None
    group: str | None
    attempt: str | None
    rewards: dict[str, float]
    branches: tuple[TokenBranch, ...]
    calls: dict[str, RolloutCall]
    without_ids: int

    @property
    def sampled_count(self) -> int:
        """The number of tokens that the branches train on, each once."""
        return sum(sum(branch.mask) for branch in self.branches)


def to_rollouts(trajectories: Iterable[Trajectory]) -> Iterator[Rollout]:
    """Yield the rollout of each run.

    >>> for rollout in to_rollouts(load_all("trajectories")):
    ...     for branch in rollout.branches:
    ...         train(branch.token_ids, branch.mask, branch.logprobs, rollout.rewards)
    """
    return map(sampled_rollout, trajectories)


def sampled_rollout(trajectory: Trajectory) -> Rollout:
    """Return the rollout of a run."""
    tree = _TokenTree()
    turns = {turn.interaction.interaction_id: turn for turn in turns_of(trajectory)}
    step_rewards = _rewards_by_call(trajectory)
    calls: dict[str, RolloutCall] = {}
    without_ids = 0
    for call in trajectory.llm_interactions:
        if not is_turn(call.api):
            continue
        answers = [tokens_of(call, choice) for choice in range(max(1, len(call.response.choices)))]
        if answers[0].prompt_ids is None or all(tokens.completion_ids is None for tokens in answers):
            without_ids += 1
            continue
        extended = tree.add(call.interaction_id, answers, is_repeated=call.is_replayed)
        calls[call.interaction_id] = RolloutCall(
            call.interaction_id,
            call.response.model or call.model,
            tuple(choice_of(call.response, choice).finish_reason for choice in range(len(answers))),
            {name: value for name, value in call.parameters.items() if name in SAMPLING},
            answers[0].weight_versions,
            step_rewards.get(call.interaction_id, {}),
            _drift(turns.get(call.interaction_id), extended, calls),
            as_text(call.parameters.get("chat_template")),
        )
    metadata = {name: str(value) for name, value in trajectory.metadata.items() if value is not None}
    return Rollout(
        trajectory.trajectory_id,
        trajectory.task,
        metadata.get("group"),
        metadata.get("attempt"),
        rewards_of(trajectory),
        tuple(tree.branches()),
        calls,
        without_ids,
    )


def _drift(turn: Turn | None, extended: Collection[str], calls: Collection[str]) -> Drift | None:
    """Say how a call's prompt begins. `extended` are the calls with whose tokens the prompt begins."""
    previous = None
    if turn is not None and turn.previous is not None:
        previous = turn.previous.interaction.interaction_id
    if previous in extended or (previous is None and extended):
        return "clean"
    if turn is None or previous not in calls:
        return None
    if turn.exact:
        return "realigned"
    return "forked"


def _rewards_by_call(trajectory: Trajectory) -> dict[str, dict[str, float]]:
    """Return the rewards of the step of each interaction."""
    by_step: dict[int, dict[str, float]] = {}
    for reward in trajectory.rewards:
        if isinstance(reward.step_number, int) and isinstance(reward.value, int | float):
            by_step.setdefault(reward.step_number, {})[reward.name] = reward.value
    return {
        identity: by_step[step.step_number]
        for step in trajectory.agent_steps
        if isinstance(step.step_number, int) and step.step_number in by_step
        for identity in step.interaction_ids
    }


# ── which call extends which ─────────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True, eq=False)
class _SampledTokens:
    """An answer with its tokens. `parent` is the answer that its prompt extends, which has `prefix_length` tokens."""

    name: SampledAnswer
    tokens: Tokens
    parent: _SampledTokens | None
    prefix_length: int
    is_repeated: bool
    is_extended: bool = False

    def spans(self, *, is_shared: bool) -> Iterator[TokenSpan]:
        prompt, answer = self.tokens.prompt_ids or [], self.tokens.completion_ids or []
        logprobs = self.tokens.logprobs
        if logprobs is not None and len(logprobs) != len(answer):
            logprobs = None
        if len(prompt) > self.prefix_length:
            yield TokenSpan(prompt[self.prefix_length :], self.name, is_shared=is_shared)
        yield TokenSpan(answer, self.name, is_sampled=True, logprobs=logprobs, is_shared=is_shared)


@dataclass(slots=True, eq=False)
class _Node:
    """A node of a radix tree over the bytes of token ids. `answers` end at this node."""

    edge: bytes = b""
    children: dict[bytes, _Node] = field(default_factory=dict)
    answers: list[_SampledTokens] = field(default_factory=list)


_WIDTH = 8
"""The bytes of a token id in an edge, which is an array of the type "q"."""


class _TokenTree:
    """All answers of a run, in a radix tree of their tokens: those of the prompt and of the answer.

    So the answer that a prompt extends is found in the time that reading the prompt takes, however many answers there
    are, and what answers share is stored once.
    """

    def __init__(self) -> None:
        self._root = _Node()
        self._answers: list[_SampledTokens] = []

    def add(self, interaction_id: str, answers: Sequence[Tokens], *, is_repeated: bool) -> set[str]:
        """Add the answers of one call. Return the ids of the interactions with whose tokens its prompt begins.

        `is_repeated` is True if a recording gave the answers.
        """
        prompt = array("q", answers[0].prompt_ids or []).tobytes()
        passed = [*self._answers_along(prompt)]
        parent, prefix_length = None, 0
        if passed:
            parent = passed[-1]
            parent.is_extended = True
            prefix_length = len(parent.tokens.prompt_ids or []) + len(parent.tokens.completion_ids or [])
        for choice, tokens in enumerate(answers):
            if tokens.completion_ids is not None:
                answer = _SampledTokens(
                    SampledAnswer(interaction_id, choice), tokens, parent, prefix_length, is_repeated
                )
                self._answers.append(answer)
                self._insert(prompt + array("q", tokens.completion_ids).tobytes(), answer)
        return {answer.name.interaction_id for answer in passed}

    def branches(self) -> Iterator[TokenBranch]:
        """Yield the branches, in the order of their last answers."""
        shown: set[_SampledTokens] = set()
        for leaf in self._answers:
            if leaf.is_extended:
                continue
            path = [leaf]
            while path[-1].parent is not None:
                path.append(path[-1].parent)
            path.reverse()
            spans = [span for one in path for span in one.spans(is_shared=one in shown or one.is_repeated)]
            shown.update(path)
            yield TokenBranch(tuple(spans))

    def _answers_along(self, tokens: bytes) -> Iterator[_SampledTokens]:
        """Yield the answers with whose tokens `tokens` begins. The longest comes last."""
        node, begin = self._root, 0
        while True:
            child = node.children.get(tokens[begin : begin + _WIDTH])
            if child is None or not tokens.startswith(child.edge, begin):
                return
            node, begin = child, begin + len(child.edge)
            yield from node.answers

    def _insert(self, tokens: bytes, answer: _SampledTokens) -> None:
        node, begin = self._root, 0
        while begin < len(tokens):
            first = tokens[begin : begin + _WIDTH]
            child = node.children.get(first)
            if child is None:
                child = node.children[first] = _Node(tokens[begin:])
            common = _common_length(child.edge, tokens, begin)
            if common < len(child.edge):
                upper = node.children[first] = _Node(child.edge[:common])
                child.edge = child.edge[common:]
                upper.children[child.edge[:_WIDTH]] = child
                child = upper
            node, begin = child, begin + common
        node.answers.append(answer)


def _common_length(edge: bytes, tokens: bytes, begin: int) -> int:
    """Return how many bytes of whole ids an edge has in common with `tokens` from `begin` on."""
    low, high = 0, min(len(edge), len(tokens) - begin) // _WIDTH
    while low < high:
        middle = (low + high + 1) // 2
        if tokens.startswith(edge[: middle * _WIDTH], begin):
            low = middle
        else:
            high = middle - 1
    return low * _WIDTH
