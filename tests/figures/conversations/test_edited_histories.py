"""One conversation with every kind of change that agents make to a history, in each view.

The agent asks for two tools at once, then for one, and answers. The user asks again, the agent asks for a tool, and
answers. Only the sent messages differ. Every export has each answer of the model once, trains on it once, finds each
result, and doubles no call.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from google import genai
from google.genai import types

from tests.counting import arguments_of, calls
from tests.figures.conversations.edited_histories import (
    CHANGES,
    EVERY,
    HELP,
    OUTPUTS,
    USES,
    Change,
    conversation,
    same,
    summed_up,
)
from tests.formats.made import assistant, call, gave, run, system, use
from tests.provider import plain, serving
from trace_recorder import Trajectory, TrajectoryRecorder, load
from trace_recorder.figures.conversations.conversation import conversations
from trace_recorder.reading.document import from_document
from trace_recorder.reading.relations.prompt_relations import relations_of, turns_of
from trace_recorder.reading.relations.turn import Turn
from trace_recorder.values.message_equality import normalized_content
from trace_recorder.values.messages import Payload
from trace_recorder.values.trajectory import Reward
from trace_recorder.views import (
    preference_pairs,
    to_atif_files,
    to_hierarchy,
    to_invariant,
    to_invariant_dataset,
    to_openai_finetuning,
    to_trl,
    to_turns,
)


@EVERY
def test_each_call_continues_the_call_before_it(change: Change) -> None:
    """Each call continues the call before it, with an extended or a changed history."""
    turns = turns_of(conversation(change))
    expected = CHANGES[change].relations.split()

    assert [turn.relation for turn in turns] == expected
    gone = [after.previous is before for before, after in itertools.pairwise(turns)]
    assert gone == [True, True, change is not summed_up, True]


@EVERY
def test_toolbrain_finds_the_output_of_each_tool(change: Change) -> None:
    """The output is the text that the model got first."""
    outputs = [turn["tool_output"] for turn in to_turns(conversation(change))]

    assert outputs == ["7 degrees\n31 degrees", "9 degrees", None, "snow", None]


@EVERY
def test_the_hierarchy_has_each_call_and_exchange_once(change: Change) -> None:
    """No call is counted twice, and each answer is new in one step."""
    for cut in ("turn", "message"):
        tree = to_hierarchy(conversation(change), cut)  # type: ignore[arg-type]
        metrics = tree["metrics"]
        told = [name for step in tree["steps"] for name in step["info"]["interaction_ids"]]

        assert (metrics["num_tool_calls"], metrics["num_tool_response_none"]) == (4, 0)
        assert tree["task"]["num_turns"] == CHANGES[change].turns
        assert sorted(set(told)) == ["llm_1", "llm_2", "llm_3", "llm_4", "llm_5"]
        assert len(told) == len(set(told))


@EVERY
def test_invariant_has_each_message_once(change: Change) -> None:
    """Calls have their recorded ids, each followed by its result. A changed history adds only its new messages."""
    messages = to_invariant(conversation(change))
    calls = [[tool_call["id"] for tool_call in message.get("tool_calls", ())] for message in messages]
    answers = [message.get("tool_call_id") for message in messages]

    assert [name for names in calls for name in names] == ["c1", "c2", "c3", "c4"]
    for at, names in enumerate(calls):
        assert answers[at + 1 : at + 1 + len(names)] == names
    assert len(messages) == 12 + CHANGES[change].news
    assert {message["tool_call_id"]: message["content"] for message in messages if "tool_call_id" in message} == OUTPUTS


@EVERY
def test_atif_has_a_document_for_each_history(change: Change) -> None:
    """Calls with the same history are in one document, each step once, with its results."""
    documents = [document for _, document in to_atif_files(conversation(change), "run.json")]
    steps = [step for document in documents for step in document["steps"] if "llm_call_count" in step]

    assert len(documents) == CHANGES[change].documents
    assert [step["extra"]["interaction_id"] for step in steps] == [f"llm_{number}" for number in range(1, 6)]
    if len(documents) == 1:
        ids = [[result["content"] for result in step.get("observation", {"results": []})["results"]] for step in steps]
        assert ids == [["7 degrees", "31 degrees"], ["9 degrees"], [], ["snow"], []]


@EVERY
def test_each_answer_is_trained_on_once(change: Change) -> None:
    """Each answer is new in exactly one row, with the history that the model saw."""
    made = conversation(change)
    weighted = [message for row in to_openai_finetuning(made) for message in row["messages"] if message.get("weight")]
    rows = to_trl(made)
    new = [turn["interaction_id"] for row in rows for turn in row["turns"] if turn["new"]]

    assert sorted(new) == [f"llm_{number}" for number in range(1, 6)]
    assert len(weighted) == 5
    assert len(rows) == CHANGES[change].rows


@EVERY
def test_a_digest_is_computed_for_each_distinct_message(change: Change) -> None:
    """A digest is not computed again for each call: the second hundred exchanges cost as much as the first hundred."""
    made = from_document(conversation(change).to_document(), "it")
    read = arguments_of(lambda: relations_of(made).all(), normalized_content, lambda _: 1)
    sent = {str(message.to_document()) for call in made.llm_interactions for message in call.input_messages}

    assert len(read) <= len(sent) + len(USES)


@EVERY
def test_a_changed_history_is_counted(change: Change) -> None:
    """A format that has each message once, in its first form, reports that later calls saw changed messages."""
    made, relations = conversation(change), CHANGES[change].relations.split()
    lost = "calls whose history the agent had changed: each message is as it was first sent"
    _, tree = to_hierarchy.with_report(made)
    lines, events = to_invariant_dataset.with_report([made])
    assert len(list(lines)) == 1

    gone = change is summed_up
    assert (tree[lost], events[lost]) == (
        relations.count("edits"),
        relations.count("edits") + relations.count("rewrites") - gone,
    )


TITLE = call([system("Write a title of five words."), "Is it warmer in Ulm or in Rome?"], "The weather")


def kinds(made: Trajectory) -> Counter[str]:
    """Return how many conversations of each kind there are."""
    return Counter(conversation.kind for conversation in conversations(made, turns_of(made)))


@pytest.mark.parametrize("place", range(6))
def test_a_side_call_is_separate_from_the_conversation(place: int) -> None:
    """A side call may come at any time, with different instructions and the same question."""
    calls = [call.to_document() for call in conversation(same).llm_interactions]
    calls.insert(place, TITLE)
    trajectory = run(*({name: value for name, value in call.items() if name != "interaction_id"} for call in calls))

    own = [turn for number, turn in enumerate(turns_of(trajectory)) if number != place]
    assert [turn.relation for turn in own] == ["begins", *["extends"] * 4]
    assert kinds(trajectory) == {"first": 1, "apart": 1}
    assert [len([*to_atif_files(trajectory, "run.json")]), len(to_trl(trajectory))] == [1, 2]
    trajectory = replace(trajectory, rewards=(Reward("correct", 1.0),))
    [pair] = preference_pairs([trajectory, replace(conversation(same), rewards=(Reward("correct", 0.0),))], "correct")
    assert [len(pair["chosen"]), len(pair["rejected"])] == [10, 10]
    outputs = [turn["tool_output"] for number, turn in enumerate(to_turns(trajectory)) if number != place]
    assert outputs == ["7 degrees\n31 degrees", "9 degrees", None, "snow", None]
    assert to_hierarchy(trajectory)["metrics"]["num_tool_calls"] == 4


def links(turns: list[Turn | None]) -> list[Payload]:
    """Return for each turn its call, its relation, and the call that it continues."""
    return [
        turn
        and (turn.interaction.interaction_id, turn.relation, turn.previous and turn.previous.interaction.interaction_id)
        for turn in turns
    ]


@EVERY
@pytest.mark.parametrize("place", [None, 0, 3, 5])
def test_a_turn_asked_for_alone_equals_that_of_the_whole_run(change: Change, place: int | None) -> None:
    """The turn is the same if a later call shows that a call is a side call. The last turn may be asked for first."""
    documents = [call.to_document() for call in conversation(change).llm_interactions]
    documents[place:place] = [] if place is None else [TITLE]
    trajectory = run(
        *({name: value for name, value in document.items() if name != "interaction_id"} for document in documents)
    )
    whole = links([*turns_of(trajectory)])

    for calls_asked_for in (trajectory.llm_interactions, trajectory.llm_interactions[::-1]):
        relations = relations_of(replace(trajectory))
        assert (
            links([relations.of(one).turn for one in calls_asked_for])
            == whole[:: 1 if calls_asked_for is trajectory.llm_interactions else -1]
        )


def test_the_first_turn_does_not_wait_for_the_last_call() -> None:
    """Computing the first turn takes as many function calls in a run of 200 LLM calls as in a run of 5."""

    def first_of(length: int) -> int:
        prompt = [system(HELP), "Is it cold?"]
        made = run(*(call([*prompt, *[assistant("Yes."), "Where?"] * n], "Yes.") for n in range(length)))
        made.llm_interactions[0].input_messages  # noqa: B018 - it is read
        return calls(lambda: relations_of(made).of(made.llm_interactions[0]))

    assert first_of(200) == first_of(5)


def test_a_side_call_with_the_same_instructions_is_recognised_by_the_next_call() -> None:
    """If the agent then continues from the messages before the side call, no history was rewritten."""
    first = [system(HELP), "Is it cold?"]
    made = run(
        call(first, "Yes."),
        call([system(HELP), "Is this a new topic?"], "No."),
        call([*first, assistant("Yes."), "Where?"], "In Ulm."),
    )

    assert [turn.relation for turn in turns_of(made)] == ["begins", "begins", "extends"]
    assert kinds(made) == {"first": 1, "apart": 1}


def test_a_repeated_call_is_a_fork() -> None:
    """The question is shown once, and the conversation continues from the answer that the agent used."""
    first = [system(HELP), "Is it cold?"]
    second = [*first, assistant("Yes."), "Where?"]
    made = run(
        call(first, "Yes."),
        call(second, "In Rome."),
        call(second, "In Ulm."),
        call([*second, assistant("In Ulm."), "When?"], "Now."),
    )

    assert [turn.relation for turn in turns_of(made)] == ["begins", "extends", "extends", "extends"]
    assert [one["content"] for one in to_invariant(made)] == [
        *(HELP, "Is it cold?", "Yes.", "Where?", "In Rome.", "In Ulm.", "When?", "Now.")
    ]
    new = [turn["interaction_id"] for row in to_trl(made) for turn in row["turns"] if turn["new"]]
    assert sorted(new) == ["llm_1", "llm_2", "llm_3", "llm_4"]


def test_a_used_answer_is_recognised_under_other_ids() -> None:
    """With n > 1, an agent may change the ids of the tool calls in the second answer."""
    choices = [
        {"index": 0, "content": None, "tool_calls": [use("a", city="Ulm")]},
        {"index": 1, "content": None, "tool_calls": [use("b", city="Rome")]},
    ]
    sent = ["q", assistant(None, use("x", city="Rome")), gave("x", "31")]
    made = run(call(["q"], None, use("a", city="Ulm"), response={"choices": choices}), call(sent, "warm"))

    assert [(turn.relation, turn.choice) for turn in turns_of(made)] == [("begins", 0), ("extends", 1)]
    assert to_turns(made)[0]["tool_output"] == "31"


def test_results_of_repeated_equal_calls_are_told_apart() -> None:
    """If an agent polls a tool and removes earlier messages, each result still belongs to its own call."""
    history: list[Payload] = [{"role": "user", "content": "Wait until it is done."}]
    calls = []
    for number in range(6):
        cut = [one | ({"content": "..."} if one["role"] == "tool" else {}) for one in history[:-1]]
        calls.append(call([*cut, history[-1]], None, use(f"c{number}", "poll")))
        history += [assistant(None, use(f"c{number}", "poll")), gave(f"c{number}", f"{number} of 6")]
    made = run(*calls)

    assert [turn["tool_output"] for turn in to_turns(made)][:5] == [f"{number} of 6" for number in range(5)]
    told = [one["content"] for one in to_invariant(made) if one["role"] == "tool"]
    assert told == [f"{number} of 6" for number in range(5)]


def test_shortened_arguments_make_no_new_call() -> None:
    """If the agent shortens a call's arguments, the call is recognised by its id."""
    first = call(["q"], None, use("c1", "write", text="long " * 100))
    second = ["q", assistant(None, use("c1", "write", text="...")), gave("c1", "written")]
    made = run(first, call(second, "done"))

    assert [turn.relation for turn in turns_of(made)] == ["begins", "edits"]
    assert [one.get("tool_call_id") for one in to_invariant(made)] == [None, None, "c1", None]
    assert to_turns(made)[0]["tool_output"] == "written"


@pytest.mark.parametrize("said", ["<think>Two cities.</think>\n\nRome.", "Two cities.</think>Rome."])
def test_thoughts_within_an_answer_s_text_may_be_removed(said: str) -> None:
    """Some servers leave thoughts in the text, and the agent may send the text back without them."""
    made = run(call(["q"], said), call(["q", assistant("Rome."), "Why?"], "South."))

    assert [turn.relation for turn in turns_of(made)] == ["begins", "extends"]


def test_two_hundred_turns_with_the_agent_s_own_ids_are_one_conversation() -> None:
    """They are one document, one row and one conversation."""
    history: list[Payload] = [system(HELP), {"role": "user", "content": "Count."}]
    calls = []
    for number in range(200):
        calls.append(call(history, None, use(f"call_{number}", "count", n=number)))
        own = f"toolu_{number:05}"
        history = [*history, assistant(None, use(own, "count", n=number)), gave(own, str(number))]
    trajectory = run(*({**call, "timestamp": "2025-06-12T20:00:00+00:00"} for call in calls))

    assert len([*to_atif_files(trajectory, "run.json")]) == 1
    assert len(to_trl(trajectory)) == 1
    assert [turn["tool_output"] for turn in to_turns(trajectory)[:199]] == [str(number) for number in range(199)]
    assert len(to_invariant(trajectory)) == 2 + 200 + 199


def test_calls_without_ids_may_get_ids(tmp_path: Path) -> None:
    """Gemini sends no ids. An agent such as Pydantic AI generates ids, and sends them in the next request."""
    uses = [{"functionCall": {"name": "weather", "args": {"city": city}}} for city in ("Ulm", "Rome")]
    with serving(*(plain(answer) for answer in (_gemini(*uses), _gemini({"text": "Rome."})))) as server:
        with TrajectoryRecorder(tmp_path / "run.json") as recorder:
            client = recorder.wrap(genai.Client(api_key="k", http_options=types.HttpOptions(base_url=server.url)))
            ask = types.Content(role="user", parts=[types.Part(text="Where is it warm?")])
            client.models.generate_content(model="gemini-x", contents=[ask])
            calls = [types.FunctionCall(id=f"own_{city}", name="weather", args={"city": city}) for city in CITIES]
            gives = [
                types.FunctionResponse(id=f"own_{city}", name="weather", response={"celsius": warm})
                for city, warm in CITIES.items()
            ]
            asked = types.Content(role="model", parts=[types.Part(function_call=call) for call in calls])
            given = types.Content(role="user", parts=[types.Part(function_response=one) for one in gives])
            client.models.generate_content(model="gemini-x", contents=[ask, asked, given])
            client.close()
    made = load(tmp_path / "run.json")
    [(_, document)] = to_atif_files(made, "run.json")

    assert [turn.relation for turn in turns_of(made)] == ["begins", "extends"]
    assert to_turns(made)[0]["tool_output"] == '{"celsius":7}\n{"celsius":31}'
    results = [step["observation"]["results"] for step in document["steps"] if "observation" in step]
    assert [[one["source_call_id"] for one in given] for given in results] == [["call_0", "call_1"]]
    assert [one.get("tool_call_id") for one in to_invariant(made)] == [None, None, "call_0", "call_1", None]


CITIES = {"Ulm": 7, "Rome": 31}


def _gemini(*parts: Payload) -> dict[str, Payload]:
    content = {"role": "model", "parts": list(parts)}
    return {"candidates": [{"content": content, "finishReason": "STOP", "index": 0}]}


def test_an_agent_that_records_only_new_messages_may_have_side_calls() -> None:
    """The next call continues the call whose tool it answers, or otherwise the last call."""
    hand = {"api": None}
    made = run(
        call([system(HELP), "Is it cold?"], None, use("c1", city="Ulm"), **hand),
        call([system("Write a title."), "Is it cold?"], "The cold", **hand),
        call([gave("c1", "7 degrees")], "Yes.", **hand),
        call([system("Write a title."), "Yes."], "Yes", **hand),
        call(["You are not done."], "I am.", **hand),
    )

    turns = turns_of(made)
    assert [turn.relation for turn in turns] == ["begins", "begins", "refers", "rewrites", "refers"]
    assert [turn.previous for turn in turns] == [None, None, turns[0], None, turns[2]]
    assert to_turns(made)[0]["tool_output"] == "7 degrees"
