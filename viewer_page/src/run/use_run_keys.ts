/** The keys of an open run. */
import { type Row, type StepRow, visibleRows } from "../data/rows";
import { say } from "../ui/elements";
import { useShortcuts } from "../ui/shortcuts";
import type { OpenRun } from "./context";
import type { Strip } from "./run_head";

interface Doing {
  panel: boolean;
  closePanel: () => void;
  setFollowing: (following: boolean) => void;
  setStrip: (strip: Strip) => void;
  toggleOutline: () => void;
}

export function useRunKeys(run: OpenRun, rows: Row[], doing: Doing): void {
  const { tree, selected, show, openCall } = run;
  const steps = rows.filter((row): row is StepRow & { depth: number } => row.kind === "step");
  const everything = inOrder(run);
  const chosen = tree.all.find((row) => row.key === selected);
  const move = (list: StepRow[], by: 1 | -1, what: string, wanted: (row: StepRow) => boolean = () => true) => {
    const index = list.findIndex((row) => row.key === selected);
    const next = by > 0 ? list.slice(index + 1).find(wanted) : list.slice(0, index < 0 ? list.length : index).findLast(wanted);
    if (next) show(next);
    else say(by > 0 ? `No further ${what}` : `No earlier ${what}`);
  };
  const hasTool = (row: StepRow) => (row.step?.tool_calls.length ?? row.calls.at(-1)?.tool_calls.length ?? 0) > 0;
  const ends = (row: StepRow | undefined) => row && show(row);
  const panel = (tab: "changes" | "answer") => {
    const call = chosen?.calls.at(-1);
    if (call) openCall(call.number, tab);
  };
  useShortcuts([
    { keys: ["j"], label: "next step", run: () => move(steps, 1, "step") },
    { keys: ["k"], label: "previous step", run: () => move(steps, -1, "step") },
    { keys: ["e"], label: "next error", run: () => move(everything, 1, "error", (row) => row.failed) },
    { keys: ["E"], label: "previous error", run: () => move(everything, -1, "error", (row) => row.failed) },
    { keys: ["t"], label: "next step with a tool", run: () => move(everything, 1, "tool", hasTool) },
    { keys: ["T"], label: "previous step with a tool", run: () => move(everything, -1, "tool", hasTool) },
    { keys: ["h"], label: "next step whose history was rewritten", run: () => move(everything, 1, "change of the history", isRewritten) },
    { keys: ["g", "Home"], label: "first step", run: () => ends(steps[0]) },
    { keys: ["G", "End"], label: "newest step", run: () => ends(steps.at(-1)) },
    { keys: ["d"], label: "what changed in the prompt", run: () => panel("changes") },
    { keys: ["Enter", "o"], label: "details of the call", run: () => panel("answer") },
    { keys: ["f"], label: "follow the run", run: () => run.outline.run.status === "running" && doing.setFollowing(true) },
    { keys: ["b"], label: "list of steps, shown or hidden", run: doing.toggleOutline },
    { keys: ["1"], label: "timeline", run: () => doing.setStrip("timeline") },
    { keys: ["2"], label: "charts", run: () => doing.setStrip("charts") },
    { keys: ["3"], label: "about the run", run: () => doing.setStrip("about") },
    { keys: ["4"], label: "rewards and notes", run: () => doing.setStrip("rewards") },
    { keys: ["0"], label: "nothing above the transcript", run: () => doing.setStrip("none") },
    { keys: ["Escape"], label: "close the panel", run: () => doing.panel && doing.closePanel() },
  ]);
}

/** All rows if every branch is open. */
function inOrder({ tree, outline }: OpenRun): StepRow[] {
  const agents = new Set(outline.agents.flatMap((agent) => agent.key ?? []));
  return visibleRows(tree, agents).filter((row): row is StepRow & { depth: number } => row.kind === "step");
}

function isRewritten(row: StepRow): boolean {
  return row.calls.some((call) => call.prompt.relation === "edits" || call.prompt.relation === "rewrites");
}
