/** Two runs side by side: their figures, then their aligned steps. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Drawn } from "../content/drawn";
import { jsonText } from "../content/json_text";
import { rowTree } from "../data/rows";
import { RunStore } from "../data/run_store";
import type { Source } from "../data/source";
import type { Outline } from "../data/types";
import { plural } from "../ui/format";
import { useShortcuts } from "../ui/shortcuts";
import { useVirtualizer } from "../ui/use_virtualizer";
import { type Pair, pairsOf, sidesOf } from "./alignment";
import { Figures } from "./figures";
import { PairView } from "./pair_view";

export function CompareView({ source, a, b }: { source: Source; a: string; b: string }) {
  const [left, right] = useMemo(() => [new RunStore(source, a), new RunStore(source, b)] as const, [source, a, b]);
  useEffect(() => {
    void left.open();
    void right.open();
    return () => {
      left.close();
      right.close();
    };
  }, [left, right]);
  const error = left.error.value ?? right.error.value;
  const outlines = [left.outline.value, right.outline.value] as const;
  if (error) return <main class="message-page">{error}</main>;
  if (!outlines[0] || !outlines[1]) return <main class="message-page muted">Loading…</main>;
  return <Compared left={left} right={right} a={outlines[0]} b={outlines[1]} />;
}

interface Props {
  left: RunStore;
  right: RunStore;
  a: Outline;
  b: Outline;
}

/** The rows: single pairs, and stretches in which both runs agree. */
type Line = { kind: "pair"; pair: Pair } | { kind: "same"; pairs: Pair[]; key: number };

const LEAST_FOLDED = 3;

function Compared({ left, right, a, b }: Props) {
  const [pairs, setPairs] = useState<Pair[] | null>(null);
  const [open, setOpen] = useState<ReadonlySet<number>>(new Set());
  const [at, setAt] = useState(-1);
  const [failure, setFailure] = useState<string | null>(null);
  useEffect(() => {
    let wanted = true;
    const compared = left.source.compare(left.id, right.id);
    Promise.all([compared, sidesOf(left, rowTree(a).all), sidesOf(right, rowTree(b).all)]).then(
      ([comparison, one, other]) => wanted && setPairs(pairsOf(comparison, one, other)),
      (failure: unknown) => wanted && setFailure(failure instanceof Error ? failure.message : String(failure)),
    );
    return () => {
      wanted = false;
    };
  }, [a, b]);
  const lines = useMemo(() => linesOf(pairs ?? [], open), [pairs, open]);
  const first = lines.findIndex((line) => isDifferent(line));
  const unfold = (key: number) => setOpen(new Set([...open, key]));
  const differences = pairs?.filter((pair) => pair.differs.length > 0).length ?? 0;
  return (
    <main class="compare-page" aria-label="Two runs side by side">
      <Figures a={a} b={b} />
      <p class="compare-said" aria-live="polite">
        {failure ?? (pairs === null
          ? "Reading both runs…"
          : differences === 0
            ? "Both runs did the same."
            : `${plural(pairs.length - differences, "step")} the same, ${differences} different.`)}
      </p>
      {pairs && <Pairs lines={lines} first={first} at={at} setAt={setAt} unfold={unfold} source={left.source} ids={[left.id, right.id]} />}
    </main>
  );
}

function isDifferent(line: Line): boolean {
  return line.kind === "pair" && line.pair.differs.length > 0;
}

function linesOf(pairs: Pair[], open: ReadonlySet<number>): Line[] {
  const lines: Line[] = [];
  for (let at = 0; at < pairs.length; ) {
    let end = at;
    while (pairs[end]?.differs.length === 0) end += 1;
    if (end - at >= LEAST_FOLDED && !open.has(at)) {
      lines.push({ kind: "same", pairs: pairs.slice(at, end), key: at });
      at = end;
      continue;
    }
    const until = Math.max(end, at + 1);
    for (const pair of pairs.slice(at, until)) lines.push({ kind: "pair", pair });
    at = until;
  }
  return lines;
}

interface PairsProps {
  lines: Line[];
  first: number;
  at: number;
  setAt: (at: number) => void;
  unfold: (key: number) => void;
  source: Source;
  ids: [string, string];
}

function Pairs({ lines, first, at, setAt, unfold, source, ids }: PairsProps) {
  const scroller = useRef<HTMLDivElement>(null);
  const list = useVirtualizer({
    count: lines.length,
    getScrollElement: () => scroller.current,
    estimateSize: (index) => (lines[index]?.kind === "same" ? 34 : 150),
    overscan: 5,
  });
  const show = (index: number) => {
    if (index < 0 || index >= lines.length) return;
    setAt(index);
    list.scrollToIndex(index, { align: "start" });
  };
  useShortcuts([
    { keys: ["j"], label: "next step", run: () => show(at + 1) },
    { keys: ["k"], label: "previous step", run: () => show(at - 1) },
    { keys: ["e"], label: "next difference", run: () => show(lines.findIndex((line, index) => index > at && isDifferent(line))) },
    { keys: ["E"], label: "previous difference", run: () => show(lines.findLastIndex((line, index) => index < at && isDifferent(line))) },
  ]);
  return (
    <div class="pairs" ref={scroller} tabIndex={0} role="region" aria-label="Steps of both runs">
      <div class="rows" style={{ height: `${list.getTotalSize()}px` }}>
        {list.getVirtualItems().map((item) => {
          const line = lines[item.index];
          if (!line) return null;
          return (
            <div
              key={item.key}
              class={`row-place compare-row ${item.index === at ? "selected" : ""}`}
              data-index={item.index}
              ref={(element: HTMLDivElement | null) => list.measureElement(element)}
              style={{ transform: `translateY(${item.start}px)` }}
            >
              {item.index === first && <div class="parting">Here the runs part.</div>}
              {line.kind === "same" ? (
                <button type="button" class="fold-title same-steps" aria-expanded={false} onClick={() => unfold(line.key)}>
                  <span class="triangle" aria-hidden="true" />
                  {plural(line.pairs.length, "step")} the same
                </button>
              ) : (
                <Drawn of={line.pair} text={() => jsonText(line.pair, 2)}>
                  <PairView pair={line.pair} source={source} ids={ids} />
                </Drawn>
              )}
            </div>
          );
        })}
      </div>
    </div>
  );
}

