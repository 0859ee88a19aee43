/** The bars of a timeline, in lanes by agent. Pure functions of an outline. */
import type { RowTree, StepRow } from "../data/rows";
import type { Call, Outline, ToolOutline } from "../data/types";

export interface Bar {
  kind: "llm" | "tool";
  start: number;
  end: number;
  failed: boolean;
  /** No end is on file, because the call is in progress or its process was killed. The bar reaches to the last time on file. */
  open: boolean;
  row: StepRow;
  call: Call | null;
  tool: ToolOutline | null;
}

export interface Lane {
  agent: string | null;
  name: string;
  bars: Bar[];
}

export interface Timeline {
  lanes: Lane[];
  end: number;
  /** Seconds without a running call or tool. Null if the time of a call or a tool is not known. */
  idle: number | null;
  llm: number | null;
  /** Seconds of the tools with a known time. Null if tools ran and no time is known. */
  tool: number | null;
  /** The number of tools without a known time. */
  untimed: number;
}

export function timelineOf(outline: Outline, tree: RowTree): Timeline {
  const lanes = new Map<string | null, Lane>();
  const names = new Map(outline.agents.map((agent) => [agent.key, agent.name ?? agent.key ?? "agent"]));
  for (const row of tree.all) {
    const lane = lanes.get(row.agent) ?? { agent: row.agent, name: names.get(row.agent) ?? "agent", bars: [] };
    lanes.set(row.agent, lane);
    lane.bars.push(...barsOf(row));
  }
  const all = [...lanes.values()].flatMap((lane) => lane.bars);
  const end = Math.max(outline.run.execution_time_seconds ?? 0, ...[0, ...all.map((bar) => bar.end)]);
  for (const bar of all) {
    if (bar.open) bar.end = Math.max(bar.end, end);
  }
  const seconds = (bars: Bar[]) => bars.reduce((sum, bar) => sum + bar.end - bar.start, 0);
  const timed = all.length === 0 || outline.interactions.some((call) => call.duration_seconds !== null || call.attempts.length > 0);
  const took = all.filter((bar) => !bar.call?.replayed_from && !bar.tool?.replayed); // replayed calls and tools took no time
  const tools = took.filter((bar) => bar.kind === "tool");
  const answered = tree.all.flatMap((row) => (row.step?.tool_calls ?? []).filter((tool) => tool.answered && !tool.replayed));
  const untimed = answered.filter((tool) => tool.duration_seconds === null).length;
  return {
    lanes: [...lanes.values()],
    end: Math.max(end, 1e-6),
    idle: timed && untimed === 0 ? Math.max(0, end - covered(took)) : null,
    llm: timed ? seconds(took.filter((bar) => bar.kind === "llm")) : null,
    tool: tools.length > 0 || untimed === 0 ? seconds(tools) : null,
    untimed,
  };
}

function barsOf(row: StepRow): Bar[] {
  const bars: Bar[] = [];
  let at = row.start;
  for (const call of row.calls) {
    const start = call.start_seconds ?? at;
    const ends = call.attempts.map((one) => (one.start_seconds ?? start) + (one.duration_seconds ?? 0));
    const end = Math.max(start + (call.duration_seconds ?? 0), ...ends);
    const open = call.duration_seconds === null && call.incomplete !== null;
    bars.push({ kind: "llm", start, end, failed: call.error !== null, open, row, call, tool: null });
    at = end;
  }
  for (const tool of row.step?.tool_calls ?? []) {
    if (tool.duration_seconds === null) continue;
    const start = tool.start_seconds ?? at;
    const end = start + tool.duration_seconds;
    bars.push({ kind: "tool", start, end, failed: tool.success === false, open: false, row, call: null, tool });
    at = end;
  }
  return bars;
}

/** The seconds inside at least one bar. */
function covered(bars: Bar[]): number {
  const sorted = [...bars].sort((a, b) => a.start - b.start);
  let sum = 0;
  let until = 0;
  for (const bar of sorted) {
    if (bar.end > until) {
      sum += bar.end - Math.max(bar.start, until);
      until = bar.end;
    }
  }
  return sum;
}

const MINUTES = [15, 20, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400];

/** Round marks for an axis of so many seconds. */
export function ticks(end: number, wanted: number): number[] {
  const rough = end / Math.max(wanted, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const round = rough > 10 ? MINUTES : [1, 2, 5, 10].map((one) => one * power);
  const step = round.find((one) => one >= rough) ?? Math.ceil(rough / 86_400) * 86_400;
  const marks: number[] = [];
  for (let at = 0; at <= end; at += step) marks.push(at);
  return marks;
}
