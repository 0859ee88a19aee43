/** The search in a run: a box, a list of the matches, and marks in the transcript. */
import { flushSync } from "preact/compat";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { visible } from "../content/visible";
import { query, setQuery } from "../data/route";
import { rowNumber } from "../data/rows";
import { type Hit, SearchIndex } from "../data/search";
import { count, plural } from "../ui/format";
import { markMatches } from "../ui/marks";
import { useShortcuts } from "../ui/shortcuts";
import { useRun } from "./context";

export function SearchBox({ showHead }: { showHead: () => void }) {
  const { store, outline, tree, show } = useRun();
  const input = useRef<HTMLInputElement>(null);
  const wanted = query.value.get("find") ?? "";
  const setWanted = (text: string) => setQuery({ find: text });
  const [index, setIndex] = useState<{ version: string; found: SearchIndex } | null>(null);
  const [at, setAt] = useState(-1);
  const [open, setOpen] = useState(false);
  const active = wanted.trim().length > 0;

  useEffect(() => {
    if (!active || index?.version === outline.version) return;
    let needed = true;
    const wait = setTimeout(async () => {
      const found = await SearchIndex.of(store, outline, tree);
      if (needed) setIndex({ version: outline.version, found });
    }, 120);
    return () => {
      needed = false;
      clearTimeout(wait);
    };
  }, [active, outline.version]);

  const { hits, all } = useMemo(() => index?.found.find(wanted.trim()) ?? { hits: [], all: 0 }, [index, wanted]);
  useEffect(() => markMatches(active ? wanted.trim() : ""), [wanted, active]);

  const visit = (next: number) => {
    const hit = hits[(next + hits.length) % hits.length];
    if (!hit) return;
    setAt((next + hits.length) % hits.length);
    show(hit.row, { focus: false });
  };
  const close = () => {
    setOpen(false);
    input.current?.blur();
  };
  const focus = () => {
    flushSync(showHead);
    input.current?.focus();
  };
  useShortcuts([
    { keys: ["/"], label: "search", run: focus },
    { keys: ["n"], label: "next match", run: () => visit(at + 1) },
    { keys: ["N"], label: "previous match", run: () => visit(at - 1) },
  ]);
  return (
    <search class="search">
      <input
        ref={input}
        type="search"
        placeholder="Search  /"
        aria-label="Search in this run"
        aria-controls={open && active && hits.length > 0 ? "hits" : undefined}
        autocomplete="off"
        spellcheck={false}
        value={wanted}
        onFocus={() => setOpen(true)}
        onInput={(event) => {
          setWanted(event.currentTarget.value);
          setAt(-1);
          setOpen(true);
        }}
        onKeyDown={(event) => {
          if (event.key === "Escape") {
            setWanted("");
            close();
          } else if (event.key === "ArrowDown" || event.key === "Enter") {
            event.preventDefault();
            visit(event.shiftKey ? at - 1 : at + 1);
          } else if (event.key === "ArrowUp") {
            event.preventDefault();
            visit(at - 1);
          }
        }}
      />
      {active && (
        <span class="muted found" aria-live="polite">
          {index ? (all === 0 ? "nothing" : at >= 0 ? `${count(at + 1)} of ${count(all)}` : plural(all, "match", "matches")) : "searching…"}
        </span>
      )}
      {open && active && hits.length > 0 && <Hits hits={hits} at={at} visit={visit} close={() => setOpen(false)} />}
    </search>
  );
}

const SHOWN = 100;

function Hits({ hits, at, visit, close }: { hits: Hit[]; at: number; visit: (at: number) => void; close: () => void }) {
  const list = useRef<HTMLUListElement>(null);
  useEffect(() => list.current?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" }), [at]);
  useEffect(() => {
    const outside = (event: MouseEvent) => {
      if (!(event.target as Element).closest("search")) close();
    };
    document.addEventListener("mousedown", outside);
    return () => document.removeEventListener("mousedown", outside);
  }, []);
  const from = Math.max(0, Math.min(at - SHOWN / 2, hits.length - SHOWN));
  return (
    <ul id="hits" class="hits" role="listbox" aria-label="Matches" ref={list}>
      {hits.slice(from, from + SHOWN).map((hit, offset) => (
        <li key={from + offset} role="option" aria-selected={at === from + offset} onClick={() => visit(from + offset)}>
          <span class="place">{rowNumber(hit.row)}</span>
          <span class="muted where">{visible(hit.where)}</span>
          <span class="excerpt">
            {visible(hit.before)}
            <mark>{visible(hit.match)}</mark>
            {visible(hit.after)}
          </span>
        </li>
      ))}
    </ul>
  );
}
