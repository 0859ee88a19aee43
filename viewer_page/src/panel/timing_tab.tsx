/** The time of a call, its duration, and all attempts. */
import { visible } from "../content/visible";
import type { Call } from "../data/types";
import { useRun } from "../run/context";
import { dateTime, duration } from "../ui/format";

export function TimingTab({ call }: { call: Call }) {
  const { store } = useRun();
  const attempts = store.answer(call.number)?.attempts ?? [];
  const output = call.completion_tokens ?? 0;
  const writing = (attempts.at(-1)?.duration_seconds ?? call.duration_seconds ?? 0) - (call.time_to_first_token_seconds ?? 0);
  const rows: [string, string][] = [
    ["Sent", dateTime(call.timestamp)],
    ["Since the run began", duration(call.start_seconds)],
    [attempts.length > 1 ? "Duration, with all attempts" : "Duration", duration(call.duration_seconds)],
    ["First token after", duration(call.time_to_first_token_seconds)],
    ["Speed", call.stream && output > 0 && writing > 0.001 ? `${(output / writing).toFixed(0)} tokens a second` : ""],
    ["Stream", call.stream ? (call.complete ? "complete" : "incomplete") : "no"],
    ["Incomplete", visible(call.incomplete ?? "")],
  ];
  return (
    <>
      <dl class="table-list">
        {rows.filter(([, value]) => value).map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      <h4>Attempts</h4>
      {attempts.map((attempt) => (
        <section key={attempt.number} class={`attempt-view ${attempt.error ? "bad" : ""}`}>
          <header>
            <strong>Attempt {attempt.number + 1}</strong>
            <span>{attempt.status ? `HTTP ${attempt.status}` : ""}</span>
            <span>{duration(attempt.duration_seconds)}</span>
            {attempt.pause_seconds != null && <span class="muted">after a pause of {duration(attempt.pause_seconds)}</span>}
            <span class="muted">{dateTime(attempt.timestamp)}</span>
            {attempt.inferred && <span class="muted">inferred</span>}
          </header>
          {attempt.error && (
            <div class="mono bad-text">
              {visible(attempt.error.type)}: {visible(attempt.error.message)}
            </div>
          )}
          <dl class="headers">
            {Object.entries(attempt.headers ?? {}).map(([name, value]) => (
              <div key={name}>
                <dt>{visible(name)}</dt>
                <dd>{visible(String(value))}</dd>
              </div>
            ))}
          </dl>
        </section>
      ))}
    </>
  );
}
