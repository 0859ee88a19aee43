/** The table of runs: a row for each run on the screen. Rows that are not loaded yet are empty. */
import { useEffect, useRef } from "preact/hooks";
import { visible } from "../content/visible";
import { go, hashOf } from "../data/route";
import type { ChangedList, RunSummary } from "../data/types";
import { StatusBadge } from "../ui/elements";
import { ago, costNote, costText, count, dateTime, duration, firstLine, short } from "../ui/format";
import { ForkedFrom, Parent, ReplayOf, SessionLink } from "../ui/relations";
import { useVirtualizer } from "../ui/use_virtualizer";
import { type Column, errorsOf, type Order } from "./filters";
import type { RunsStore } from "./runs_store";

const COLUMNS: [Column, string, boolean][] = [
  ["status", "Status", false],
  ["task", "Task", false],
  ["model", "Model", false],
  ["time", "Started", true],
  ["duration", "Time", true],
  ["steps", "Steps", true],
  ["errors", "Errors", true],
  ["tokens", "Tokens", true],
  ["cost", "Cost", true],
  ["rewards", "Rewards", false],
];

/** A run that the reader chose by the keys, with its place in the list. */
export interface ChosenRun {
  id: string;
  place: number;
}

interface TableProps {
  store: RunsStore;
  /** The filters and the order. When they change, the reader is taken to the first row. */
  parameters: string;
  order: Order;
  setOrder: (order: Order) => void;
  chosen: ChosenRun | null;
  marked: string[];
  mark: (id: string) => void;
}

export function RunTable({ store, parameters, order, setOrder, chosen, marked, mark }: TableProps) {
  const list = store.list.value;
  const rows = store.rows.value;
  const total = list?.count ?? 0;
  const costsTitle = list?.prices
    ? `≈ is an estimate with ${list.prices}; other costs are those that providers stated`
    : "Costs that providers stated. Others are estimated if the extra is installed: pip install 'trace-recorder[prices]'";
  const scroller = useRef<HTMLDivElement>(null);
  const places = useVirtualizer({ count: total, getScrollElement: () => scroller.current, estimateSize, overscan: 12 });
  const items = places.getVirtualItems();
  const [first, last] = [items[0]?.index ?? 0, items.at(-1)?.index ?? 0];
  useEffect(() => store.see(first, last), [store, first, last, list?.version]);
  useEffect(() => scroller.current?.scrollTo(0, 0), [parameters]);
  useEffect(() => {
    if (chosen) places.scrollToIndex(chosen.place, { align: "auto" });
  }, [chosen]);
  return (
    <div class="runs" role="table" aria-label="Runs" aria-rowcount={total + 1}>
      <div role="rowgroup" class="runs-head">
        <div role="row" class="run-row">
          <span role="columnheader" class="mark">
            <span class="offscreen">Marked for comparing</span>
          </span>
          {COLUMNS.map(([column, name, figure]) => (
            <span
              key={column}
              role="columnheader"
              class={`${column} ${figure ? "figure" : ""}`}
              aria-sort={order.column === column ? (order.descending ? "descending" : "ascending") : "none"}
            >
              <button
                type="button"
                class="sort"
                title={column === "cost" ? costsTitle : undefined}
                onClick={() => setOrder({ column, descending: order.column === column ? !order.descending : figure })}
              >
                {name}
                <span aria-hidden="true">{order.column === column ? (order.descending ? " ↓" : " ↑") : ""}</span>
              </button>
            </span>
          ))}
        </div>
      </div>
      <div role="rowgroup" class="runs-scroll" ref={scroller} tabIndex={0} aria-label="Runs, scrolled">
        <div class="rows" role="presentation" style={{ height: `${places.getTotalSize()}px` }}>
          {items.map((item) => {
            const run = rows.get(item.index);
            const place = { index: item.index, start: item.start, measure: (element: HTMLElement | null) => places.measureElement(element) };
            return run ? (
              <RunRow
                key={run.id}
                {...place}
                run={run}
                chosen={run.id === chosen?.id}
                marked={marked.includes(run.id)}
                mark={() => mark(run.id)}
              />
            ) : (
              <EmptyRow key={item.key} {...place} isGone={run === null} />
            );
          })}
        </div>
        {list && total === 0 && <p class="empty muted">{whyEmpty(list)}</p>}
      </div>
    </div>
  );
}

/** Rows that are deeper in the tree are not indented further. */
const MAX_INDENT = 8;
const estimateSize = () => 37;

function whyEmpty({ total, unread, unsearched }: ChangedList): string {
  if (unread > 0) return "Reading runs…";
  if (total === 0) return "There are no runs yet. A run appears when its recording begins.";
  return unsearched > 0 ? "No run matches yet." : "No run matches.";
}

interface Place {
  index: number;
  start: number;
  measure: (element: HTMLElement | null) => void;
}

function EmptyRow({ index, start, measure, isGone }: Place & { isGone: boolean }) {
  return (
    <div role="row" aria-rowindex={index + 2} class="run-row row-place" data-index={index} ref={measure} style={{ transform: `translateY(${start}px)` }}>
      <span role="cell" class="mark" />
      <span role="cell" class="status-cell muted">
        {isGone ? "deleted" : "…"}
      </span>
    </div>
  );
}

interface RowProps extends Place {
  run: RunSummary;
  chosen: boolean;
  marked: boolean;
  mark: () => void;
}

function RunRow({ run, index, start, measure, chosen, marked, mark }: RowProps) {
  const failures = errorsOf(run);
  const to = { page: "run" as const, run: run.id };
  const costs = { dollars: run.cost, estimated: run.cost_estimated === true, withoutPrice: run.calls_without_price ?? 0 };
  return (
    <div
      role="row"
      aria-rowindex={index + 2}
      class={`run-row row-place ${chosen ? "selected" : ""}`}
      data-index={index}
      ref={measure}
      style={{ transform: `translateY(${start}px)` }}
      onClick={(event) => !(event.target as Element).closest("a, input") && go(to)}
    >
      <span role="cell" class="mark">
        <input type="checkbox" checked={marked} aria-label={`Mark ${run.id} for comparing`} onChange={mark} />
      </span>
      <span role="cell" class="status-cell">
        <StatusBadge status={run.status} success={run.success} />
      </span>
      <span role="cell" class="task" style={{ paddingLeft: `${Math.min(run.depth, MAX_INDENT)}em` }}>
        {run.depth > 0 && <span class="muted" aria-hidden="true">└ </span>}
        <a href={hashOf(to)} title={visible(run.task ?? run.id)}>
          {visible(firstLine(run.task ?? run.id, 200))}
        </a>
        {run.forked_from && <ForkedFrom origin={run.forked_from} run={run.origin} />}
        {run.replay_of && <ReplayOf origin={run.replay_of} run={run.origin} />}
        {!run.forked_from && !run.replay_of && <Parent of={run} run={run.origin} />}
        {run.session && <SessionLink session={run.session} hasList />}
      </span>
      <span role="cell" class="model" title={visible(run.provider ?? "")}>
        {visible(run.model ?? "")}
      </span>
      <span role="cell" class="time figure" title={dateTime(run.start_time)}>
        {ago(run.start_time ?? run.modified, Date.now())}
      </span>
      <span role="cell" class="duration figure">{duration(run.execution_time_seconds)}</span>
      <span role="cell" class="steps figure">{count(run.steps)}</span>
      <span role="cell" class={`errors figure ${failures > 0 ? "bad-text" : ""}`}>{failures > 0 ? count(failures) : ""}</span>
      <span role="cell" class="tokens figure" title={`${count(run.total_input_tokens)} in, ${count(run.output_tokens)} out`}>
        {run.total_input_tokens === null ? "" : `${short(run.total_input_tokens)} → ${short(run.output_tokens)}`}
      </span>
      <span role="cell" class="cost figure" title={costNote(costs)}>
        {costText(costs)}
      </span>
      <span role="cell" class="rewards-cell">
        {Object.entries(run.rewards ?? {})
          .map(([name, value]) => `${visible(name)} ${value}`)
          .join(", ")}
      </span>
    </div>
  );
}

