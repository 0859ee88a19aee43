/** One run: its head, the timeline, the steps on the left, the transcript, and the panel of a call. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Prompts } from "../data/prompts";
import { go, type PanelTab, query, route, setQuery } from "../data/route";
import { branchesAround, rowTree, type StepRow, visibleRows } from "../data/rows";
import { RunStore } from "../data/run_store";
import type { Source } from "../data/source";
import type { Call, Outline, RunHead as Head } from "../data/types";
import { CallPanel } from "../panel/call_panel";
import { type OpenRun, RunProvider } from "./context";
import { OutlineList } from "./outline_list";
import { RunHead, type Strip, stripIn } from "./run_head";
import { StripView } from "./strip_view";
import { Transcript } from "./transcript";
import { useRunKeys } from "./use_run_keys";

export function RunView({ source, id }: { source: Source; id: string }) {
  const store = useMemo(() => new RunStore(source, id), [source, id]);
  useEffect(() => {
    void store.open();
    return () => store.close();
  }, [store]);
  if (store.error.value) {
    return (
      <main class="message-page">
        <h1>This run cannot be shown</h1>
        <p>{store.error.value}</p>
        {source.live && <a href="#/">All runs</a>}
      </main>
    );
  }
  const outline = store.outline.value;
  if (!outline) return <main class="message-page muted">Loading…</main>;
  return <Opened key={id} store={store} outline={outline} />;
}

/** Here the list of steps lies over the transcript. */
const NARROW = "(max-width: 800px)";

type Target = { key: string; focus: boolean } | null;

function Opened({ store, outline }: { store: RunStore; outline: Outline }) {
  const tree = useMemo(() => rowTree(outline), [outline]);
  const prompts = useMemo(() => new Prompts(outline.interactions), [outline]);
  const [openBranches, setOpen] = useState<ReadonlySet<string>>(new Set());
  const [selected, setSelected] = useState<string | null>(null);
  const [following, setFollowing] = useState(false);
  const [target, setTarget] = useState<Target>(null);
  const head = useShrinkingHead();
  const strip = stripIn(query.value);
  const setStrip = (wanted: Strip) => {
    setQuery({ show: wanted === "timeline" ? "" : wanted });
    head.show();
  };
  const [outlineOpen, setOutlineOpen] = useState(window.innerWidth >= 1000);
  const rows = useMemo(() => visibleRows(tree, openBranches), [tree, openBranches]);
  const place = route.value.page === "run" ? route.value : null;
  const call = callAt(outline, place?.call);

  const reveal = (row: StepRow) => {
    const needed = branchesAround(tree, row).filter((agent) => !openBranches.has(agent));
    if (needed.length > 0) setOpen(new Set([...openBranches, ...needed]));
    setSelected(row.key);
  };
  const show: OpenRun["show"] = (row, { scroll = true, focus = true } = {}) => {
    reveal(row);
    if (scroll) {
      setFollowing(false);
      setTarget({ key: row.key, focus });
    }
    const last = row.calls.at(-1)?.number;
    if (place?.call !== undefined && last !== undefined) {
      if (!row.calls.some((one) => one.number === call?.number)) go({ page: "run", run: store.id, call: last, tab: place.tab }, true);
    } else go({ page: "run", run: store.id, step: row.step?.number }, true);
  };
  const openCall = (number: number, tab: PanelTab = "changes") =>
    go({ page: "run", run: store.id, call: number, tab }, place?.call !== undefined);
  const closePanel = () => {
    const row = tree.all.find((one) => one.key === selected);
    go({ page: "run", run: store.id, step: row?.step?.number }, true);
    if (row) setTarget({ key: row.key, focus: true });
  };
  const toggleBranch = (agent: string) => {
    const next = new Set(openBranches);
    if (!next.delete(agent)) next.add(agent);
    setOpen(next);
  };
  useArrival(tree.all, place?.step, call?.number, outline.run, { reveal, setTarget, setFollowing, selected });
  useEffect(() => {
    const narrow = window.matchMedia(NARROW);
    const close = () => narrow.matches && setOutlineOpen(false);
    narrow.addEventListener("change", close);
    return () => narrow.removeEventListener("change", close);
  }, []);
  useNewestWhileFollowing(tree.all, following, setSelected);

  const run: OpenRun = { store, outline, tree, prompts, selected, show, openCall, toggleBranch, openBranches };
  useRunKeys(run, rows, { panel: call !== undefined, closePanel, setFollowing, setStrip, toggleOutline: () => setOutlineOpen(!outlineOpen) });
  return (
    <RunProvider value={run}>
      <div class={`run-page ${call ? "with-panel" : ""} ${outlineOpen ? "with-outline" : ""} ${head.isSmall ? "small-head" : ""}`}>
        <RunHead {...{ strip, setStrip, outlineOpen, setOutlineOpen }} showHead={head.show} />
        <StripView strip={strip} />
        <div class="columns">
          {outlineOpen && <OutlineList rows={rows} picked={() => window.matchMedia(NARROW).matches && setOutlineOpen(false)} />}
          <main class="middle" aria-label="Run">
            {rows.length === 0 && <p class="empty muted">{outline.run.status === "running" ? "Nothing is recorded yet." : "This run has no calls and no steps."}</p>}
            <Transcript rows={rows} following={following} target={target} scrolled={head.scrolled} atEnd={(end) => outline.run.status === "running" && end !== following && setFollowing(end)} />
            {outline.run.status === "running" && (
              <button type="button" class={`follow ${following ? "on" : ""}`} aria-pressed={following} onClick={() => setFollowing(!following)}>
                {following ? "Following" : "Follow"}
              </button>
            )}
          </main>
          {call && <CallPanel call={call} tab={place?.tab ?? "changes"} close={closePanel} />}
        </div>
      </div>
    </RunProvider>
  );
}

const SMALL_BELOW_PX = 60;
/** If there is less to scroll, a smaller head would leave nothing to scroll. */
const LEAST_SCROLLED_PX = 600;

/** In a narrow window the head of a run is one line while the transcript is scrolled, until the reader opens it (run.css). */
function useShrinkingHead(): { isSmall: boolean; show: () => void; scrolled: (scroller: HTMLElement) => void } {
  const [isSmall, setSmall] = useState(false);
  const shownAt = useRef(0);
  const top = useRef(0);
  return {
    isSmall,
    show: () => {
      shownAt.current = top.current;
      setSmall(false);
    },
    scrolled: (scroller) => {
      top.current = scroller.scrollTop;
      if (scroller.scrollTop < SMALL_BELOW_PX) shownAt.current = 0;
      const isFar = Math.abs(scroller.scrollTop - shownAt.current) > SMALL_BELOW_PX;
      if (scroller.scrollTop === 0) setSmall(false);
      else if (isFar && scroller.scrollHeight - scroller.clientHeight > LEAST_SCROLLED_PX) setSmall(true);
    },
  };
}

interface Arriving {
  reveal: (row: StepRow) => void;
  setTarget: (target: Target) => void;
  setFollowing: (following: boolean) => void;
  selected: string | null;
}

/** The call that an address names, by its number or by its id. */
function callAt(outline: Outline, named: number | string | undefined): Call | undefined {
  if (typeof named === "number") return outline.interactions[named - 1];
  return named === undefined ? undefined : outline.interactions.find((one) => one.id === named);
}

/** The first row for a reader: the newest row of a run that goes on, or the last row that failed, or the first row. */
function firstShown(all: StepRow[], { status, success }: Head): StepRow | undefined {
  if (status === "running") return all.at(-1);
  if (status === "interrupted") return all.findLast((row) => row.calls.some((call) => call.incomplete)) ?? all.at(-1);
  if (status === "failed" || success === false) return all.findLast((row) => row.failed) ?? all.at(-1);
  return all[0];
}

/** Go to the place in the address, or else to the first row for a reader. Then a run that goes on is followed. */
function useArrival(all: StepRow[], step: number | undefined, call: number | undefined, head: Head, arriving: Arriving): void {
  const [arrived, setArrived] = useState<string | null>(null);
  const wanted = `${step ?? ""}/${call ?? ""}`;
  useEffect(() => {
    if (all.length === 0 || arrived === wanted) return;
    const first = arrived === null;
    setArrived(wanted);
    const named = all.find((row) => (step !== undefined ? row.step?.number === step : row.calls.some((one) => one.number === call)));
    const row = named ?? (first ? firstShown(all, head) : undefined);
    if (!row || (!first && row.key === arriving.selected)) return;
    arriving.reveal(row);
    if (first && !named && head.status === "running") arriving.setFollowing(true);
    else arriving.setTarget({ key: row.key, focus: false });
  }, [all, wanted]);
}

function useNewestWhileFollowing(all: StepRow[], following: boolean, select: (key: string) => void): void {
  const newest = all.at(-1)?.key;
  useEffect(() => {
    if (following && newest) select(newest);
  }, [following, newest]);
}
