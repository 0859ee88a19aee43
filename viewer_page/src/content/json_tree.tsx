/** A JSON value as a tree that opens. A closed branch is not in the page. Long lists open in portions. */
import { useState } from "preact/hooks";
import { count, firstLine, plural } from "../ui/format";
import { jsonBeginning } from "./json_text";
import { LongText } from "./long_text";
import { visible } from "./visible";

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

const PORTION = 100;
const INLINE = 60;
const SHORT = 24;

export function JsonTree({ value, open = 1, file }: { value: unknown; open?: number; file?: string | undefined }) {
  if (!isBranch(value)) return <Leaf value={value as Json} file={file} />;
  if (size(value) === 0) return <code class="json-leaf">{Array.isArray(value) ? "[]" : "{}"}</code>;
  return <Members value={value} open={open - 1} />;
}

function isBranch(value: unknown): value is Json[] | { [name: string]: Json } {
  return typeof value === "object" && value !== null;
}

function size(value: Json[] | { [name: string]: Json }): number {
  return Array.isArray(value) ? value.length : Object.keys(value).length;
}

function Members({ value, open }: { value: Json[] | { [name: string]: Json }; open: number }) {
  const [shown, setShown] = useState(PORTION);
  const members: [string, Json][] = Array.isArray(value)
    ? value.slice(0, shown).map((one, at) => [String(at), one])
    : Object.entries(value).slice(0, shown);
  const all = size(value);
  return (
    <ul class="json">
      {members.map(([name, one]) => (
        <Member key={name} name={name} value={one} open={open} />
      ))}
      {all > shown && (
        <li>
          <button type="button" class="link" onClick={() => setShown(shown + 10 * PORTION)}>
            Show more: {count(shown)} of {count(all)}
          </button>
        </li>
      )}
    </ul>
  );
}

function Member({ name, value, open }: { name: string; value: Json; open: number }) {
  const branch = isBranch(value) && size(value) > 0;
  const [isOpen, setOpen] = useState(open > 0 || (branch && jsonBeginning(value, SHORT + 1).length <= SHORT));
  if (!branch) {
    return (
      <li>
        <span class="json-name">{visible(name)}</span>
        <Leaf value={value} file={undefined} />
      </li>
    );
  }
  return (
    <li>
      <button type="button" class="json-name branch" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        {visible(name)}
      </button>
      {isOpen ? <Members value={value} open={open - 1} /> : <span class="muted json-summary">{summary(value)}</span>}
    </li>
  );
}

/** A short description of a closed value. */
function summary(value: Json[] | { [name: string]: Json }): string {
  const text = jsonBeginning(value, INLINE + 1);
  if (text.length <= INLINE) return visible(text);
  if (Array.isArray(value)) return `[${plural(value.length, "element")}]`;
  return firstLine(visible(`{${Object.keys(value).slice(0, 12).join(", ")}}`), INLINE);
}

function Leaf({ value, file }: { value: Json; file?: string | undefined }) {
  if (typeof value === "string") {
    if (value.length > 80 || value.includes("\n") || file) return <LongText text={value} file={file} />;
    return <span class="json-leaf string">{visible(value) || '""'}</span>;
  }
  return <span class={`json-leaf ${value === null ? "null" : typeof value}`}>{String(value)}</span>;
}
