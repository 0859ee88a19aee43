/** The related runs of a run: the run that it continues or repeats, its parent, its forks, replays and children, and the runs that gave its answers. */
import { visible } from "../content/visible";
import { hashOf, hashOfSearch } from "../data/route";
import type { Call, ForkOrigin, Outline, Relations, ReplayOrigin } from "../data/types";

/** `run` is the id of the run that this run continues or repeats, if it is in the list. */
interface Origin<Of> {
  origin: Of;
  run: string | null | undefined;
}

export function ForkedFrom({ origin, run }: Origin<ForkOrigin>) {
  return (
    <span class="relation">
      forked from <RunName id={run} name={nameOf(origin, run)} />
      {fromStep(origin.step_number)}
    </span>
  );
}

export function ReplayOf({ origin, run }: Origin<ReplayOrigin>) {
  return (
    <span class="relation">
      replay of <RunName id={run} name={nameOf(origin, run)} />
    </span>
  );
}

/** The parent of a run. A fork names its parent as its origin already. */
export function Parent({ of, run }: { of: { parent: string | null; forked_from: ForkOrigin | null }; run: string | null | undefined }) {
  if (!of.parent || of.forked_from?.trajectory_id === of.parent) return null;
  return (
    <span class="relation">
      parent <RunName id={run} name={run ?? of.parent} />
    </span>
  );
}

/** The session of a run, with a link to the runs of the session if there is a list. */
export function SessionLink({ session, hasList }: { session: string; hasList: boolean }) {
  const place = hashOfSearch(`session:"${session.replaceAll('"', '""')}"`);
  return (
    <span class="relation">
      session {hasList ? <a href={place} title={visible(session)}>{visible(session)}</a> : <span class="mono">{visible(session)}</span>}
    </span>
  );
}

/** The related runs of an open run. */
export function RunRelations({ outline: { run, relations } }: { outline: Outline }) {
  const forks = relations?.forks ?? [];
  const replays = relations?.replays ?? [];
  const children = relations?.children ?? [];
  if (!run.forked_from && !run.replay_of && !run.parent && !run.session && forks.length + replays.length + children.length === 0) return null;
  return (
    <p class="relations">
      {run.forked_from && <ForkedFrom origin={run.forked_from} run={relations?.forked_from} />}
      {run.replay_of && <ReplayOf origin={run.replay_of} run={relations?.replay_of} />}
      <Parent of={run} run={relations?.parent} />
      {run.session && <SessionLink session={run.session} hasList={relations !== undefined} />}
      <Runs name="fork" runs={forks} />
      <Runs name="replay" runs={withoutSteps(replays)} />
      <Runs name="child run" runs={withoutSteps(children)} />
    </p>
  );
}

function withoutSteps(ids: string[]): Relations["forks"] {
  return ids.map((id) => ({ id, step_number: null }));
}

function Runs({ name, runs }: { name: string; runs: Relations["forks"] }) {
  if (runs.length === 0) return null;
  return (
    <span class="relation">
      {runs.length === 1 ? name : `${name}s`}{" "}
      {runs.map(({ id, step_number: step }, at) => (
        <span key={id}>
          {at > 0 && ", "}
          <RunName id={id} name={id} />
          {fromStep(step)}
        </span>
      ))}
    </span>
  );
}

/** The recorded call that gave the answer of a call, with a link if its run is in the list. */
export function ReplayedFrom({ call, outline }: { call: Call; outline: Outline }) {
  const source = call.replayed_from;
  if (!source) return null;
  const { run, relations } = outline;
  const origin = [run.replay_of, run.forked_from].find((one) => one?.trajectory_id === source.trajectory_id);
  // The outline has the sources of the calls that existed when the page was opened.
  const sources = relations?.sources ?? {};
  const named = source.trajectory_id ?? "";
  const id = (Object.hasOwn(sources, named) ? sources[named] : undefined) ?? (origin && (relations?.replay_of ?? relations?.forked_from));
  const other = nameOf(origin ?? source, id);
  const recorded = source.interaction_id ?? "a call";
  return (
    <span class="replayed" title="This call was not made: it took no tokens, and costs nothing.">
      {source.by_hand ? "answered by hand, in place of " : "replayed from "}
      {id && source.interaction_id ? (
        <a href={hashOf({ page: "run", run: id, call: source.interaction_id })}>{visible(recorded)}</a>
      ) : (
        <span class="mono">{visible(recorded)}</span>
      )}{" "}
      of {visible(other)}
    </span>
  );
}

function nameOf(origin: ReplayOrigin, run: string | null | undefined): string {
  return run ?? origin.file ?? origin.trajectory_id ?? "another run";
}

function RunName({ id, name }: { id: string | null | undefined; name: string }) {
  return id ? <a href={hashOf({ page: "run", run: id })}>{visible(name)}</a> : <span class="mono">{visible(name)}</span>;
}

function fromStep(step: number | null | undefined): string {
  return step == null ? "" : ` at step ${step}`;
}
