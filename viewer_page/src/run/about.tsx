/** The facts of a run: its task, its result, its metadata, and gaps of the recording. */
import { JsonTree } from "../content/json_tree";
import { LongText } from "../content/long_text";
import { Parts } from "../content/parts";
import { visible } from "../content/visible";
import { count, dateTime, duration } from "../ui/format";
import type { Websocket } from "../data/types";
import { useRun } from "./context";
import { Labelled } from "./labelled";

function websocketText(websocket: Websocket): string {
  const { error, duration_seconds, code, reason, sent, received, warm_ups } = websocket;
  return [
    websocket.url ?? websocket.connection_id,
    error && `refused: ${error.type}: ${error.message}`,
    duration_seconds !== undefined && `open for ${duration(duration_seconds)}`,
    sent !== undefined && received !== undefined && `${count(sent)} messages sent and ${count(received)} received`,
    warm_ups && `${count(warm_ups)} warm-ups`,
    code !== undefined && `closed with code ${code} ${reason ?? ""}`.trim(),
    websocket.ended_by,
  ]
    .filter(Boolean)
    .join(", ");
}

export function About() {
  const { outline } = useRun();
  const { run } = outline;
  return (
    <div class="about">
      {run.task && (
        <Labelled label="task">
          <LongText text={run.task} markdown />
        </Labelled>
      )}
      {run.error && (
        <Labelled label="error" look="bad">
          <span class="mono">
            {visible(run.error.type)}: {visible(run.error.message)}
          </span>
        </Labelled>
      )}
      {run.final_result && run.final_result.length > 0 && (
        <Labelled label="result">
          <Parts parts={run.final_result} markdown />
        </Labelled>
      )}
      <Labelled label="time">
        {dateTime(run.start_time)}
        {run.end_time ? ` to ${dateTime(run.end_time)}` : ""}
        {run.execution_time_seconds != null ? `, ${duration(run.execution_time_seconds)}` : ""}
      </Labelled>
      {Object.keys(run.metrics).length > 0 && <Labelled label="metrics"><JsonTree value={run.metrics} open={2} /></Labelled>}
      {Object.keys(run.metadata).length > 0 && <Labelled label="metadata"><JsonTree value={run.metadata} open={2} /></Labelled>}
      {run.gaps.length > 0 && (
        <Labelled label="not recorded" look="bad">
          <ul>
            {run.gaps.map((gap, at) => (
              <li key={at}>
                {visible(gap.what)}: {visible(gap.why)}
              </li>
            ))}
          </ul>
        </Labelled>
      )}
      {run.websockets.length > 0 && (
        <Labelled label="websockets">
          <ul>
            {run.websockets.map((websocket) => (
              <li key={websocket.connection_id}>{visible(websocketText(websocket))}</li>
            ))}
          </ul>
        </Labelled>
      )}
      <Labelled label="file">
        <span class="mono">{visible(outline.id)}</span> <span class="muted mono">{visible(run.trajectory_id ?? "")}</span>
      </Labelled>
    </div>
  );
}
