/** Two to ten runs in one table: a column for each run, a row for the steps that belong together. */
import { useEffect, useRef, useState } from "preact/hooks";
import { visible } from "../content/visible";
import { hashOf } from "../data/route";
import type { Source } from "../data/source";
import type { RunTable, TableCell, TableRun } from "../data/types";
import { StatusBadge } from "../ui/elements";
import { costNote, costText, duration, firstLine } from "../ui/format";
import { useVirtualizer } from "../ui/use_virtualizer";

const ROW_PIXELS = 64;
const NUMBER_PIXELS = 40;

export function TableView({ source, runs }: { source: Source; runs: string[] }) {
  const [table, setTable] = useState<RunTable | null>(null);
  const [error, setError] = useState<string | null>(null);
  useEffect(() => {
    let wanted = true;
    source.table?.(runs).then(
      (answer) => wanted && setTable(answer),
      (failure: unknown) => wanted && setError(failure instanceof Error ? failure.message : String(failure)),
    );
    return () => {
      wanted = false;
    };
  }, [source, runs.join(" ")]);
  if (error) return <main class="message-page">{visible(error)}</main>;
  if (!table) return <main class="message-page muted">Reading {runs.length} runs…</main>;
  return <Rows table={table} runs={runs} />;
}

function Rows({ table, runs }: { table: RunTable; runs: string[] }) {
  const scroller = useRef<HTMLDivElement>(null);
  const list = useVirtualizer({
    count: table.rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_PIXELS,
    getItemKey: (index) => index,
    overscan: 12,
  });
  const columns = {
    gridTemplateColumns: `${NUMBER_PIXELS}px repeat(${runs.length}, minmax(0, 1fr))`,
    minWidth: `calc(${NUMBER_PIXELS}px + ${runs.length} * var(--table-column))`,
  };
  return (
    <main class="table-page" aria-label={`${runs.length} runs in one table`}>
      <div class="table-scroll" ref={scroller} tabIndex={0} role="table" aria-label="Runs, step by step" aria-rowcount={table.rows.length + 1}>
        <div role="row" class="table-row table-head" style={columns}>
          <span role="columnheader" class="muted">
            #
          </span>
          {runs.map((run, at) => (
            <Head key={run} run={run} facts={table.runs[at]} />
          ))}
        </div>
        <div class="rows" role="presentation" style={{ height: `${list.getTotalSize()}px` }}>
          {list.getVirtualItems().map((item) => (
            <div
              key={item.key}
              role="row"
              class="table-row row-place"
              data-index={item.index}
              ref={(element) => list.measureElement(element)}
              style={{ ...columns, transform: `translateY(${item.start}px)` }}
            >
              <span role="cell" class="muted">
                {item.index + 1}
              </span>
              {runs.map((run, at) => (
                <Cell key={run} run={run} cell={table.rows[item.index]?.[at] ?? null} />
              ))}
            </div>
          ))}
        </div>
      </div>
    </main>
  );
}

function Head({ run, facts }: { run: string; facts: TableRun | undefined }) {
  return (
    <span role="columnheader">
      <a href={hashOf({ page: "run", run })} title={visible(run)}>
        {visible(run)}
      </a>
      {facts && <HeadFacts facts={facts} />}
    </span>
  );
}

function HeadFacts({ facts }: { facts: TableRun }) {
  const models = visible(facts.models.join(", ")) || "no model";
  const cost = { dollars: facts.cost, estimated: facts.cost_estimated ?? false, withoutPrice: facts.calls_without_price };
  return (
    <>
      <span title={models}>{models}</span>
      <StatusBadge status={facts.status} success={facts.success} />
      <span title={costNote(cost)}>{costText(cost) || "cost unknown"}</span>
      <span>{duration(facts.execution_time_seconds) || "time unknown"}</span>
    </>
  );
}

function Cell({ run, cell }: { run: string; cell: TableCell | null }) {
  if (cell === null) return <span role="cell" class="table-cell missing" aria-label="no such step" />;
  const to = cell.interaction
    ? ({ page: "run", run, call: cell.interaction, tab: "answer" } as const)
    : ({ page: "run", run, step: cell.step ?? undefined } as const);
  const text = cell.error ?? cell.text ?? "";
  return (
    <span role="cell" class={`table-cell ${cell.differs.length > 0 ? "differs" : ""}`} title={cell.differs.length > 0 ? `differs: ${cell.differs.join(", ")}` : "as in the first run"}>
      <a href={hashOf(to)} class={cell.error ? "bad-text" : ""}>
        {visible(firstLine(text, 160)) || "no text"}
      </a>
      <span class="table-tools">
        {cell.tools.map((tool, at) => (
          <span key={at} class={tool.failed ? "bad-text" : "muted"}>
            {visible(tool.name)}
          </span>
        ))}
      </span>
    </span>
  );
}
