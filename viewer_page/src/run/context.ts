/** The state of an open run, which all of its views can use. */
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Prompts } from "../data/prompts";
import type { PanelTab } from "../data/route";
import type { RowTree, StepRow } from "../data/rows";
import type { RunStore } from "../data/run_store";
import type { Outline } from "../data/types";

export interface OpenRun {
  store: RunStore;
  outline: Outline;
  tree: RowTree;
  prompts: Prompts;
  /** The row that the keys refer to, by its key. */
  selected: string | null;
  /** Select a row, open the branches around it, and scroll to it. */
  show: (row: StepRow, how?: { scroll?: boolean; focus?: boolean }) => void;
  openCall: (call: number, tab?: PanelTab) => void;
  toggleBranch: (agent: string) => void;
  openBranches: ReadonlySet<string>;
}

const Context = createContext<OpenRun | null>(null);

export const RunProvider = Context.Provider;

export function useRun(): OpenRun {
  const run = useContext(Context);
  if (!run) throw new Error("This view needs an open run.");
  return run;
}
