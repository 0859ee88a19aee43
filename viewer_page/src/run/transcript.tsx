/** The transcript: a list of rows. Only the rows on the screen are in the page. */
import type { VirtualItem } from "@tanstack/virtual-core";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { Drawn } from "../content/drawn";
import { jsonText } from "../content/json_text";
import { visible } from "../content/visible";
import type { BranchRow, Row, StepRow } from "../data/rows";
import type { RunStore } from "../data/run_store";
import { duration, plural } from "../ui/format";
import { type Rows, useVirtualizer } from "../ui/use_virtualizer";
import { useRun } from "./context";
import { StepView } from "./step_view";

interface Props {
  rows: Row[];
  following: boolean;
  /** The row to scroll to. Each request to scroll is a new object. */
  target: { key: string; focus: boolean } | null;
  /** The reader scrolled to the end, or away from it. Scrolling by the page itself does not count. */
  atEnd: (end: boolean) => void;
  scrolled: (scroller: HTMLElement) => void;
}

const BY_HAND_MS = 700;
const SETTLING_MS = 2500;
const SCROLLING_KEYS = new Set(["ArrowUp", "ArrowDown", "PageUp", "PageDown", " "]);

export function Transcript({ rows, following, target, atEnd, scrolled }: Props) {
  const scroller = useRef<HTMLDivElement>(null);
  const list = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: (index) => (rows[index]?.kind === "branch" ? 37 : 260),
    getItemKey: (index) => rows[index]?.key ?? index,
    overscan: 4,
  });
  const handled = useRef(Number.NEGATIVE_INFINITY);
  useFollowing(list, rows, following, target, handled);
  const byHand = () => {
    handled.current = performance.now();
  };
  return (
    <div
      class="transcript"
      ref={scroller}
      tabIndex={0}
      role="region"
      aria-label="Transcript"
      onWheel={byHand}
      onTouchMove={byHand}
      onPointerDown={byHand}
      onKeyDown={(event) => SCROLLING_KEYS.has(event.key) && byHand()}
      onScroll={(event) => {
        scrolled(event.currentTarget);
        if (performance.now() - handled.current < BY_HAND_MS) atEnd(list.isAtEnd(60));
      }}
    >
      <div class="rows" style={{ height: `${list.getTotalSize()}px` }}>
        {list.getVirtualItems().map((item) => (
          <RowFrame key={item.key} item={item} row={rows[item.index]} list={list} />
        ))}
      </div>
    </div>
  );
}

/** Scroll to the requested row, or stay at the end while the run grows. */
function useFollowing(
  list: Rows,
  rows: Row[],
  following: boolean,
  target: Props["target"],
  handled: { current: number },
): void {
  const done = useRef<Props["target"]>(null);
  const since = useRef(0);
  useLayoutEffect(() => {
    if (!target || done.current === target) return;
    const index = rows.findIndex((row) => row.key === target.key);
    if (index < 0) return;
    done.current = target;
    since.current = performance.now();
    list.scrollToIndex(index, { align: "start" });
    if (target.focus) focusRow(target.key);
  });
  useLayoutEffect(() => {
    // The contents of rows come later. The requested row stays in place until the reader scrolls.
    if (following || !target || handled.current > since.current || performance.now() > since.current + SETTLING_MS) return;
    const index = rows.findIndex((row) => row.key === target.key);
    if (index >= 0) list.scrollToIndex(index, { align: "start" });
  }, [list.getTotalSize()]);
  useEffect(() => {
    if (following) list.scrollToEnd();
  }, [following, rows, list.getTotalSize(), list.scrollRect?.height]);
}

let wanted = "";

/** Focus a row as soon as it is in the page, unless another row was requested meanwhile. */
function focusRow(key: string): void {
  wanted = key;
  const attempt = (tries: number) => {
    const row = document.getElementById(`row-${key}`);
    if (wanted !== key) return;
    if (row) row.focus({ preventScroll: true });
    else if (tries > 0) requestAnimationFrame(() => attempt(tries - 1));
  };
  attempt(10);
}

function RowFrame({ item, row, list }: { item: VirtualItem; row: Row | undefined; list: Rows }) {
  const { selected, show, store } = useRun();
  if (!row) return null;
  const isSelected = selected === row.key;
  return (
    <div
      ref={(element: HTMLDivElement | null) => list.measureElement(element)}
      data-index={item.index}
      class="row-place"
      style={{ transform: `translateY(${item.start}px)` }}
    >
      {row.kind === "branch" ? (
        <Branch row={row} depth={row.depth} />
      ) : (
        <article
          id={`row-${row.key}`}
          tabIndex={-1}
          aria-current={isSelected ? "step" : undefined}
          aria-label={row.step ? `Step ${row.step.step_number ?? row.step.number}` : `Call ${row.calls[0]?.number}`}
          class={`row depth-${Math.min(row.depth, 5)} ${isSelected ? "selected" : ""} ${row.failed ? "failed" : ""}`}
          onFocusCapture={() => selected !== row.key && show(row, { scroll: false })}
        >
          <Drawn of={row.step ?? row.calls} text={() => rowText(row, store)}>
            <StepView row={row} />
          </Drawn>
        </article>
      )}
    </div>
  );
}

/** Everything that a row shows, as JSON. */
function rowText({ step, calls }: StepRow, store: RunStore): string {
  return jsonText({ step: step && store.step(step.number), calls: calls.map((call) => store.answer(call.number)) }, 2);
}

function Branch({ row, depth }: { row: BranchRow; depth: number }) {
  const { openBranches, toggleBranch } = useRun();
  const open = openBranches.has(row.agent);
  return (
    <div class={`branch depth-${Math.min(depth, 5)}`}>
      <button type="button" class="fold-title" aria-expanded={open} onClick={() => toggleBranch(row.agent)}>
        <span class="triangle" aria-hidden="true" />
        <span class="agent-name">{visible(row.name)}</span>
        <span class="muted">
          sub-agent, {plural(row.rows.length, "step")}, {duration(row.seconds)}
        </span>
        {row.failures > 0 && <span class="bad-text">{plural(row.failures, "error")}</span>}
      </button>
    </div>
  );
}
