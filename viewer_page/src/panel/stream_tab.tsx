/** The events of a stream in order, each with its time since the request. */
import { useMemo, useRef, useState } from "preact/hooks";
import { JsonTree } from "../content/json_tree";
import { jsonText } from "../content/json_text";
import { visible } from "../content/visible";
import type { Call, Raw } from "../data/types";
import { useRun } from "../run/context";
import { CopyButton } from "../ui/elements";
import { count, duration, firstLine, plural } from "../ui/format";
import { useVirtualizer } from "../ui/use_virtualizer";
import { useRaw } from "./use_raw";

type Events = NonNullable<Raw["stream"]>["events"];

export function StreamTab({ call }: { call: Call }) {
  const { store } = useRun();
  const { loaded, error } = useRaw(store, call);
  if (error) return <p class="bad-text">{error}</p>;
  if (!loaded) return <p class="muted">Loading…</p>;
  const stream = loaded.raw.stream;
  if (!stream) return <p class="muted">This call was not streamed.</p>;
  return (
    <>
      <div class="section-head">
        <span class="muted">
          {plural(stream.events.length, "event")}, {count(stream.characters)} characters
        </span>
        <CopyButton label="Copy" text={() => stream.events.map((one) => one.text).join("")} />
      </div>
      <EventList events={stream.events} />
    </>
  );
}

function EventList({ events }: { events: Events }) {
  const scroller = useRef<HTMLDivElement>(null);
  const [open, setOpen] = useState<ReadonlySet<number>>(new Set());
  const list = useVirtualizer({
    count: events.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => 24,
    overscan: 12,
  });
  const toggle = (at: number) => {
    const next = new Set(open);
    if (!next.delete(at)) next.add(at);
    setOpen(next);
  };
  return (
    <div class="events" ref={scroller} tabIndex={0} role="region" aria-label="Events">
      <div class="rows" style={{ height: `${list.getTotalSize()}px` }}>
        {list.getVirtualItems().map((item) => (
          <div
            key={item.key}
            class="row-place"
            data-index={item.index}
            ref={(element: HTMLDivElement | null) => list.measureElement(element)}
            style={{ transform: `translateY(${item.start}px)` }}
          >
            <Event events={events} at={item.index} open={open.has(item.index)} toggle={() => toggle(item.index)} />
          </div>
        ))}
      </div>
    </div>
  );
}

function Event({ events, at, open, toggle }: { events: Events; at: number; open: boolean; toggle: () => void }) {
  const event = events[at];
  const data = useMemo(() => dataOf(event?.text ?? "", events[at - 1]?.text), [event]);
  if (!event) return null;
  return (
    <>
      <button type="button" class="event" aria-expanded={open} onClick={toggle}>
        <span class="muted time">{event.seconds === null ? `${at + 1}` : `+${duration(event.seconds)}`}</span>
        <span class="mono">{visible(firstLine(data.short, 220))}</span>
      </button>
      {open && (data.value === undefined ? <pre class="code">{visible(event.text)}</pre> : <JsonTree value={data.value} open={4} />)}
    </>
  );
}

/** The data of an event without the words of the protocol; as JSON if it is JSON. */
function dataOf(text: string, before?: string): { short: string; value: unknown } {
  const lines = text.split("\n").map((line) => line.replace(/\r$/, ""));
  const data = lines.filter((line) => line.startsWith("data:")).map((line) => line.slice(5).trimStart()).join("\n");
  const short = data || text.trim();
  try {
    const value = JSON.parse(short) as unknown;
    return { short: before === undefined ? short : news(value, dataOf(before).value, short), value };
  } catch {
    return { short, value: undefined };
  }
}

/** The members that differ from the event before, because events repeat ids and names. */
function news(value: unknown, before: unknown, whole: string): string {
  if (!isObject(value) || !isObject(before)) return whole;
  const fresh = Object.entries(value).filter(([name, one]) => jsonText(one) !== jsonText(before[name]));
  return fresh.length > 0 ? jsonText(Object.fromEntries(fresh)) : whole;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
