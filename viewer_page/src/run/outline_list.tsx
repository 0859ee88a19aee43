/** All steps, one line each, with marks for the reader's place and for failures, and with their times. */
import { useEffect, useRef } from "preact/hooks";
import { visible } from "../content/visible";
import { agentName, agentsInside, ownCall, rowNumber, rowSeconds, rowTitle, rowTools, type Row, type StepRow } from "../data/rows";
import { duration } from "../ui/format";
import { useVirtualizer } from "../ui/use_virtualizer";
import { useRun } from "./context";

/** The title of a row: its tools with their first arguments, or else the text of the model. */
function Title({ row }: { row: StepRow }) {
  const tools = rowTools(row);
  if (tools.length === 0) return <span class="title">{visible(rowTitle(row))}</span>;
  const whole = tools.map((tool) => `${tool.name} ${tool.argument ?? ""}`).join("\n");
  return (
    <span class="title" title={visible(whole)}>
      {tools.map((tool, at) => (
        <span key={at}>
          {at > 0 && ", "}
          {visible(tool.name)}
          {tool.argument && <span class="argument"> {visible(tool.argument)}</span>}
        </span>
      ))}
    </span>
  );
}

export function OutlineList({ rows, picked }: { rows: Row[]; picked: () => void }) {
  const { outline, selected, show, toggleBranch, openBranches } = useRun();
  const scroller = useRef<HTMLDivElement>(null);
  const list = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => 26,
    getItemKey: (index) => rows[index]?.key ?? index,
    overscan: 10,
  });
  useEffect(() => {
    const index = rows.findIndex((row) => row.key === selected);
    if (index >= 0) list.scrollToIndex(index, { align: "auto" });
  }, [selected, rows.length]);
  return (
    <nav class="outline" aria-label="Steps">
      <div class="outline-scroll" ref={scroller} tabIndex={-1}>
        <ol class="rows" style={{ height: `${list.getTotalSize()}px` }}>
          {list.getVirtualItems().map((item) => {
            const row = rows[item.index];
            if (!row) return null;
            const style = { transform: `translateY(${item.start}px)` };
            if (row.kind === "branch") {
              return (
                <li key={item.key} class="row-place" style={style}>
                  <button
                    type="button"
                    class={`outline-row depth-${Math.min(row.depth, 5)}`}
                    aria-expanded={openBranches.has(row.agent)}
                    onClick={() => toggleBranch(row.agent)}
                  >
                    <span class="triangle" aria-hidden="true" />
                    <span class="agent-name">{visible(row.name)}</span>
                    <span class="muted">{row.rows.length}</span>
                  </button>
                </li>
              );
            }
            return (
              <li key={item.key} class="row-place" style={style}>
                <button
                  type="button"
                  class={`outline-row depth-${Math.min(row.depth, 5)} ${row.failed ? "failed" : ""}`}
                  aria-current={selected === row.key ? "step" : undefined}
                  onClick={() => {
                    show(row);
                    picked();
                  }}
                >
                  <span class="place">{rowNumber(row)}</span>
                  <Title row={row} />
                  {agentsInside(row).map((agent) => (
                    <span key={agent} class="agent-name">
                      {visible(agentName(outline, agent) ?? "")}
                    </span>
                  ))}
                  {ownCall(row)?.side_call && <span class="muted">side call</span>}
                  {row.failed && (
                    <span class="bad-text" role="img" aria-label="failed">
                      ✕
                    </span>
                  )}
                  {outline.run.status !== "running" && row.calls.some((call) => call.incomplete) && <span class="warn">incomplete</span>}
                  <span class="muted time">{duration(rowSeconds(row))}</span>
                </button>
              </li>
            );
          })}
        </ol>
      </div>
    </nav>
  );
}
