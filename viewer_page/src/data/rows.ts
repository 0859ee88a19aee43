/**
 * The rows of a transcript: one for each step, and one for each call that no step shows, in the order in which they
 * began. The rows of a sub-agent are a branch below the row in which it was started.
 */
import type { Call, Outline, StepOutline } from "./types";

export interface StepRow {
  kind: "step";
  key: string;
  /** Place among all rows of the run. */
  place: number;
  step: StepOutline | null;
  calls: Call[];
  agent: string | null;
  start: number;
  failed: boolean;
}

export interface BranchRow {
  kind: "branch";
  key: string;
  agent: string;
  name: string;
  rows: StepRow[];
  failures: number;
  seconds: number;
}

export type Row = (StepRow | BranchRow) & { depth: number };

export interface RowTree {
  all: StepRow[];
  /** The rows of the agents that no other agent started. */
  top: StepRow[];
  /** The branches that begin in a row, by its key. */
  branches: Map<string, BranchRow[]>;
  /** The row in which an agent was started. */
  startedIn: Map<string, StepRow>;
}

export function rowTree(outline: Outline): RowTree {
  const all = stepRows(outline);
  const byAgent = Map.groupBy(all, (row) => row.agent);
  const tree: RowTree = { all, top: [], branches: new Map(), startedIn: new Map() };
  const parents = new Map(outline.agents.map((agent) => [agent.key, agent]));
  const starters = rowsThatStart(all);
  for (const [agent, rows] of byAgent) {
    const first = rows[0];
    if (agent === null || !first) continue;
    const before = byAgent.get(parents.get(agent)?.parent ?? null)?.filter((row) => row.start <= first.start).at(-1);
    const starter = starters.get(agent) ?? before;
    if (!starter || starter.agent === agent) continue;
    tree.startedIn.set(agent, starter);
    const branch = branchOf(agent, parents.get(agent)?.name ?? agent, rows);
    tree.branches.set(starter.key, [...(tree.branches.get(starter.key) ?? []), branch]);
  }
  tree.top = all.filter((row) => row.agent === null || !tree.startedIn.has(row.agent));
  return tree;
}

function stepRows(outline: Outline): StepRow[] {
  const rows: StepRow[] = outline.steps.map((step) => stepRow(step, outline));
  for (const call of outline.interactions) if (call.step === null) rows.push(callRow(call));
  rows.sort((a, b) => a.start - b.start || (a.step?.number ?? 0) - (b.step?.number ?? 0));
  for (const [place, row] of rows.entries()) row.place = place;
  return rows;
}

function stepRow(step: StepOutline, outline: Outline): StepRow {
  const numbers = step.interactions.length > 0 ? step.interactions : step.interaction === null ? [] : [step.interaction];
  const calls = numbers.flatMap((number) => outline.interactions[number - 1] ?? []);
  const failed = Boolean(step.error) || calls.some((call) => call.error) || step.tool_calls.some((tool) => tool.success === false);
  const start = step.start_seconds ?? calls[0]?.start_seconds ?? 0;
  return { kind: "step", key: `s${step.number}`, place: 0, step, calls, agent: step.agent, start, failed };
}

function callRow(call: Call): StepRow {
  const start = call.start_seconds ?? 0;
  const failed = call.error !== null;
  return { kind: "step", key: `c${call.number}`, place: 0, step: null, calls: [call], agent: call.agent, start, failed };
}

function rowsThatStart(all: StepRow[]): Map<string, StepRow> {
  const starters = new Map<string, StepRow>();
  for (const row of all)
    for (const tool of row.step?.tool_calls ?? []) for (const agent of tool.sub_agents ?? []) starters.set(agent, row);
  return starters;
}

function branchOf(agent: string, name: string, rows: StepRow[]): BranchRow {
  const failures = rows.filter((row) => row.failed).length;
  const ends = rows.map((row) => row.start + (rowSeconds(row) ?? 0));
  const seconds = Math.max(...ends) - (rows[0]?.start ?? 0);
  return { kind: "branch", key: `b${agent}`, agent, name, rows, failures, seconds };
}

/** The main call of a row: the last call of its own agent. Sub-agents may have made other calls inside the step. */
export function ownCall(row: StepRow): Call | undefined {
  return row.calls.findLast((call) => call.agent === row.agent) ?? row.calls.at(-1);
}

/** The sub-agents that made calls inside a row, in the order of their first calls. */
export function agentsInside(row: StepRow): string[] {
  return [...new Set(row.calls.flatMap((call) => (call.agent === null || call.agent === row.agent ? [] : [call.agent])))];
}

export function agentName(outline: Outline, key: string | null): string | null {
  return outline.agents.find((one) => one.key === key)?.name ?? key;
}

/** The seconds of a row: of its step, or of its calls and tools. Null if no time is known, as in some imported runs. */
export function rowSeconds(row: StepRow): number | null {
  if (row.step?.duration_seconds != null) return row.step.duration_seconds;
  const parts = [...row.calls.map((call) => call.duration_seconds), ...(row.step?.tool_calls ?? []).map((tool) => tool.duration_seconds)];
  const known = parts.filter((seconds) => seconds != null);
  return known.length > 0 ? known.reduce((sum, seconds) => sum + seconds, 0) : null;
}

/** The visible rows while these branches are open. */
export function visibleRows(tree: RowTree, open: ReadonlySet<string>): Row[] {
  const rows: Row[] = [];
  const add = (row: StepRow, depth: number) => {
    rows.push({ ...row, depth });
    for (const branch of tree.branches.get(row.key) ?? []) {
      rows.push({ ...branch, depth: depth + 1 });
      if (open.has(branch.agent)) for (const inner of branch.rows) add(inner, depth + 1);
    }
  };
  for (const row of tree.top) add(row, 0);
  return rows;
}

/** The agents whose branches must be open to show a row. */
export function branchesAround(tree: RowTree, row: StepRow): string[] {
  const agents: string[] = [];
  for (let agent = row.agent; agent !== null && tree.startedIn.has(agent) && !agents.includes(agent); ) {
    agents.push(agent);
    agent = tree.startedIn.get(agent)?.agent ?? null;
  }
  return agents;
}

/** The tools that the model asked for in a row, each with its first argument. */
export function rowTools(row: StepRow): { name: string; argument: string | null }[] {
  const tools = row.step?.tool_calls ?? ownCall(row)?.tool_calls ?? [];
  return tools.map((tool) => ({ name: tool.name ?? "tool", argument: tool.argument }));
}

/** A short title of a row without tools: the text of the model, or the reason why there is no text. */
export function rowTitle(row: StepRow): string {
  const call = ownCall(row);
  const said = call?.error?.message || row.step?.error || call?.excerpt || call?.incomplete || row.step?.summary || row.step?.reflection;
  return (said || row.step?.state || "call").replace(/^[#>*\s]+/, "");
}

export function rowNumber(row: StepRow): string {
  return row.step ? String(row.step.step_number ?? row.step.number) : (row.calls[0]?.id ?? "");
}
