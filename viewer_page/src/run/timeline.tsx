/** The timeline: model, tools and idle time, with a lane for each agent and marks for failed attempts and side calls. */
import { memo } from "preact/compat";
import type { RefObject } from "preact";
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { visible } from "../content/visible";
import { rowNumber } from "../data/rows";
import { duration } from "../ui/format";
import { useWidth } from "../ui/use_width";
import { useRun } from "./context";
import { type Bar, type Lane, ticks, type Timeline, timelineOf } from "./timeline_data";

const NAMES = 92;
const BAR = 11;
const LANE = 2 * BAR + 8;
const AXIS = 18;
const TICK_WIDTH = 48;
/** The smallest width of a bar without an end. */
const OPEN = 8;
const ZOOMS = [1, 2, 5, 10, 25, 100];

export function TimelineView() {
  const { outline, tree, selected, show } = useRun();
  const [at, width] = useWidth<HTMLDivElement>();
  const [zoom, setZoom] = useState(0);
  const [hover, setHover] = useState<{ bar: Bar; x: number; y: number } | null>(null);
  const timeline = useMemo(() => timelineOf(outline, tree), [outline, tree]);
  const bars = useMemo(() => timeline.lanes.flatMap((lane) => lane.bars), [timeline]);
  const drawn = Math.max(width - NAMES - 2, 100) * (ZOOMS[zoom] ?? 1);
  const chosen = tree.all.find((row) => row.key === selected);
  const scroller = useScrolledTo(chosen ? (chosen.start / timeline.end) * drawn : null, drawn);
  const barAt = (event: MouseEvent) => bars[Number((event.target as Element).getAttribute("data-bar") ?? -1)];
  return (
    <div class="timeline" ref={at}>
      <Legend timeline={timeline} zoom={zoom} setZoom={setZoom} />
      <div class="lanes">
        <div class="lane-names" style={{ width: `${NAMES}px` }}>
          {timeline.lanes.map((lane) => (
            <div key={lane.agent ?? ""} style={{ height: `${LANE}px` }} title={lane.name}>
              {visible(lane.name)}
            </div>
          ))}
        </div>
        <div
          class="lane-bars"
          ref={scroller}
          tabIndex={0}
          role="region"
          aria-label="Timeline, drawn"
          onMouseMove={(event) => {
            const bar = barAt(event);
            setHover(bar ? { bar, x: event.clientX, y: event.clientY } : null);
          }}
          onMouseLeave={() => setHover(null)}
          onClick={(event) => {
            const bar = barAt(event);
            if (bar) show(bar.row);
          }}
        >
          {width > 0 && <Drawing timeline={timeline} width={drawn} />}
          {width > 0 && chosen && (
            <div class="now" style={{ left: `${(chosen.start / timeline.end) * drawn}px`, height: `${timeline.lanes.length * LANE}px` }} />
          )}
        </div>
      </div>
      {hover && <Tip {...hover} />}
    </div>
  );
}

/** A scroller that keeps a place where it is on the screen when the drawing gets another width, and in sight when it moves. */
function useScrolledTo(x: number | null, width: number): RefObject<HTMLDivElement | null> {
  const at = useRef<HTMLDivElement>(null);
  const before = useRef<{ x: number; width: number } | null>(null);
  const left = at.current?.scrollLeft ?? 0; // a narrower drawing may scroll
  useLayoutEffect(() => {
    const scroller = at.current;
    if (!scroller || x === null) return;
    const seen = before.current ? before.current.x - left : -1;
    const wasSeen = seen >= 0 && seen <= scroller.clientWidth;
    const isZoomed = before.current !== null && before.current.width !== width;
    before.current = { x, width };
    const isSeen = x >= scroller.scrollLeft && x <= scroller.scrollLeft + scroller.clientWidth;
    if (isZoomed) scroller.scrollLeft = x - (wasSeen ? seen : scroller.clientWidth / 2);
    else if (!isSeen) scroller.scrollLeft = x - scroller.clientWidth / 2;
  }, [x, width]);
  return at;
}

function Legend({ timeline, zoom, setZoom }: { timeline: Timeline; zoom: number; setZoom: (zoom: number) => void }) {
  return (
    <div class="legend">
      <span class="swatch llm">model {timeline.llm === null ? "(times of calls are not known)" : duration(timeline.llm)}</span>
      <span class="swatch tool">tools {toolTime(timeline)}</span>
      {timeline.idle !== null && <span class="swatch idle">idle {duration(timeline.idle)}</span>}
      <span class="swatch bad">failed</span>
      <span class="spacer" />
      <button type="button" class="small" aria-label="Zoom out" disabled={zoom === 0} onClick={() => setZoom(zoom - 1)}>
        −
      </button>
      <span class="muted">{ZOOMS[zoom]}×</span>
      <button type="button" class="small" aria-label="Zoom in" disabled={zoom === ZOOMS.length - 1} onClick={() => setZoom(zoom + 1)}>
        +
      </button>
    </div>
  );
}

function toolTime({ tool, untimed }: Timeline): string {
  if (tool === null) return "(their times are not known)";
  return untimed > 0 ? `${duration(tool)} (not known of ${untimed} more)` : duration(tool);
}

const Drawing = memo(function Drawing({ timeline, width }: { timeline: Timeline; width: number }) {
  const height = timeline.lanes.length * LANE + AXIS;
  const x = (seconds: number) => (seconds / timeline.end) * width;
  let first = 0;
  return (
    <svg width={width} height={height} role="img" aria-label={`${timeline.lanes.length} lanes, ${duration(timeline.end)} in all`}>
      {ticks(timeline.end, width / 110).map((seconds) => (
        <g key={seconds} class="tick">
          <line x1={x(seconds)} x2={x(seconds)} y1={0} y2={height - AXIS} />
          {x(seconds) + TICK_WIDTH <= width && (
            <text x={x(seconds) + 3} y={height - 5}>
              {seconds === 0 ? "0" : duration(seconds)}
            </text>
          )}
        </g>
      ))}
      {timeline.lanes.map((lane, number) => {
        const bars = <LaneBars key={lane.agent ?? ""} lane={lane} y={number * LANE} x={x} drawn={width} first={first} />;
        first += lane.bars.length;
        return bars;
      })}
    </svg>
  );
});

interface LaneProps {
  lane: Lane;
  y: number;
  x: (seconds: number) => number;
  /** The width of the drawing. */
  drawn: number;
  first: number;
}

function LaneBars({ lane, y, x, drawn, first }: LaneProps) {
  return (
    <g>
      {lane.bars.map((bar, at) => {
        const top = y + 4 + (bar.kind === "tool" ? BAR + 1 : 0);
        const width = Math.max(x(bar.end) - x(bar.start), bar.open ? OPEN : 1.5);
        const left = Math.min(x(bar.start), drawn - width);
        const attempts = bar.call && bar.call.attempts.length > 1 ? bar.call.attempts : [];
        const isFaint = bar.open || attempts.length > 0;
        const look = `${bar.kind} ${bar.failed ? "bad" : ""} ${isFaint ? "open" : ""} ${bar.call?.side_call ? "side" : ""}`;
        return (
          <g key={at} class="bar">
            <rect class={look} x={left} y={top} width={width} height={BAR} rx={1.5} data-bar={first + at} />
            {attempts.map((one) => (
              <rect
                key={one.number}
                class={one.error ? "attempt" : "llm"}
                x={x(one.start_seconds ?? bar.start)}
                y={top}
                width={Math.max(x(one.duration_seconds ?? 0), 1.5)}
                height={BAR}
                data-bar={first + at}
              />
            ))}
          </g>
        );
      })}
    </g>
  );
}

function Tip({ bar, x, y }: { bar: Bar; x: number; y: number }) {
  const left = Math.min(x + 12, window.innerWidth - 280);
  const { call, tool } = bar;
  const failed = call?.attempts.filter((one) => one.error).length ?? 0;
  return (
    <div class="tip" role="presentation" style={{ left: `${left}px`, top: `${y + 14}px` }}>
      <strong>{tool ? visible(tool.name ?? "tool") : visible(call?.model ?? "model")}</strong>
      <div>
        Step {rowNumber(bar.row)}, {bar.open ? "" : `${duration(bar.end - bar.start)}, `}from {duration(bar.start)}
      </div>
      {call?.time_to_first_token_seconds != null && <div>first token after {duration(call.time_to_first_token_seconds)}</div>}
      {call?.side_call && <div>side call</div>}
      {call?.incomplete && <div>{visible(call.incomplete)}</div>}
      {failed > 0 && <div class="bad-text">{failed} failed of {call?.attempts.length} attempts</div>}
      {bar.failed && <div class="bad-text">{visible((tool?.error ?? call?.error?.message ?? "failed").slice(0, 160))}</div>}
    </div>
  );
}
