/** How a run belongs with others: what it was forked from, and what was forked from it. */
import { visible } from "../content/visible";
import { hashOf } from "../data/route";
import type { ForkOrigin, Relations } from "../data/types";

/** `run` is the id of the run that this one continues, if that is in the list. */
export function ForkedFrom({ origin, run }: { origin: ForkOrigin; run: string | null | undefined }) {
  return (
    <span class="relation">
      forked from <RunName id={run} name={run ?? origin.file ?? origin.trajectory_id ?? "another run"} />
      {fromStep(origin.step_number)}
    </span>
  );
}

export function Forks({ forks }: { forks: Relations["forks"] }) {
  if (forks.length === 0) return null;
  return (
    <span class="relation">
      {forks.length === 1 ? "fork" : "forks"}{" "}
      {forks.map(({ id, step_number: step }, at) => (
        <span key={id}>
          {at > 0 && ", "}
          <RunName id={id} name={id} />
          {fromStep(step)}
        </span>
      ))}
    </span>
  );
}

function RunName({ id, name }: { id: string | null | undefined; name: string }) {
  return id ? <a href={hashOf({ page: "run", run: id })}>{visible(name)}</a> : <span class="mono">{visible(name)}</span>;
}

function fromStep(step: number | null | undefined): string {
  return step == null ? "" : ` at step ${step}`;
}
