"""Records that an agent makes itself: calls that are not captured, steps, rewards, annotations.

Values of any class are copied at once. The recorder's methods (`attach/recorder.py`) find the run, check the arguments,
and guard the agent.
"""

from __future__ import annotations

from collections.abc import Mapping

from trace_recorder.facts import AgentStepFact, AnnotationFact, JsonText, LLMInteractionFact, RewardFact
from trace_recorder.guard import ignore_failures
from trace_recorder.recording import context as steps
from trace_recorder.recording.run import Run
from trace_recorder.values.checked_types import ArgumentReader
from trace_recorder.values.jsonable import (
    describe_error,
    is_error,
    member_name,
    object_to_json,
    objects_to_jsonable,
    to_json,
    to_jsonable,
    to_jsonable_of_type,
)
from trace_recorder.values.messages import Payload


def start_members(  # noqa: PLR0913, PLR0917 - the arguments of `start`
    who: str, task: object, provider: object, model: object, max_steps: object, session: object
) -> dict[str, Payload]:
    """Return the members of a `start` record.

    `who` is the name of the recorder's method, for error texts. Raises TypeError if `max_steps` is not a number, or if
    `session` is not a text. Raises ValueError for a session that child processes could not get in their environment.
    """
    _check_session(who, session)
    texts = {
        "task": to_jsonable_of_type(task, str),
        "provider": to_jsonable_of_type(provider, str),
        "model": to_jsonable_of_type(model, str),
    }
    numbers = ArgumentReader(who)
    maximum = None
    if max_steps is not None:
        maximum = numbers.integer("max_steps", max_steps)
    numbers.raise_if_refused()
    return {**texts, "max_steps": maximum, "session": session}


MAX_SESSION_CHARACTERS = 1000


def _check_session(who: str, session: object) -> None:
    """Raise TypeError or ValueError for a session that an environment variable may not be able to have."""
    if session is None:
        return
    if not isinstance(session, str):
        raise TypeError(f"{who}: session is {session!r}, and must be a str, such as str(chat_id).")
    if len(session) > MAX_SESSION_CHARACTERS or not session.isprintable():
        raise ValueError(
            f"{who}: session begins with {session[:40]!r}, and must be a name of at most {MAX_SESSION_CHARACTERS} "
            "printable characters."
        )


def metadata_of(value: object) -> dict[str, Payload]:
    """Return metadata as a dict of JSON values. A value that is not a mapping becomes the dict's member `metadata`."""
    copied = to_jsonable(value)
    if isinstance(copied, dict):
        return copied
    if copied is None:
        return {}
    return {"metadata": copied}


def interaction(  # noqa: PLR0913, PLR0917 - the arguments of `record_llm_interaction`
    run: Run, messages: object, response: object, provider: object, model: object, tools: object
) -> None:
    """Record a call to a model. An exception as the response means that the call failed."""
    run.has_calls_by_hand = True
    result: dict[str, Payload]
    if is_error(response):
        result = {"response": None, "error": describe_error(response)}
    else:
        result = {"response": JsonText(object_to_json(response)), "error": None}
    names = run.named(provider=to_jsonable_of_type(provider, str), model=to_jsonable_of_type(model, str))
    members = steps.merge_facts(names, steps.context_of(run))
    fact = LLMInteractionFact(interaction_id=run.next_id(), **members, **result)
    run.append_lists(fact, {"messages": messages, "tools": tools})


def step(run: Run, number: object, state: object, messages: object, details: Mapping[str, object]) -> None:
    """Record a step. `details` has the remaining arguments of `record_agent_step` by name."""
    names = run.named(step_number=number, state=to_jsonable_of_type(state, str))
    fact = AgentStepFact(
        **steps.merge_facts(names, steps.agent_of(run)),
        **steps.open_step_members(run, number),
        llm_response=JsonText(object_to_json(details["llm_response"])),
        tool_calls=_list_to_json(details["tool_calls"]),
        tool_results=_list_to_json(details["tool_results"]),
        reflection=to_jsonable_of_type(details["reflection"], str),
        error=to_jsonable(steps.step_error(details["error"])),
    )
    if messages is None:
        run.append_body(fact, b'{"llm_messages":null}')
    else:
        run.append_lists(fact, {"llm_messages": messages})


def _list_to_json(value: object) -> Payload:
    if value is None:
        return None
    return JsonText(to_json(objects_to_jsonable(value)))


def reward(run: Run, members: Mapping[str, object]) -> None:
    """Record a reward. `members` has the arguments of `TrajectoryRecorder.reward` by name."""
    own_members = {"name": to_jsonable_of_type(members["name"], str)} | {
        name: members[name] for name in ("value", "weight", "step_number")
    }
    run.append(RewardFact(**run.named(**own_members), explanation=to_jsonable_of_type(members["explanation"], str)))


def annotation(run: Run, key: object, value: object) -> None:
    """Record an annotation of the run."""
    text = None
    with ignore_failures:
        text = member_name(str(key))
    if text is None:
        text = member_name(key)
    run.append(AnnotationFact(**run.named(key=text), value=to_jsonable(value)))


def summary(run: Run, number: object, text: object) -> None:
    """Record a summary of a step."""
    run.append(AnnotationFact(**run.named(lakeview_step=number), value=to_jsonable(text)))
