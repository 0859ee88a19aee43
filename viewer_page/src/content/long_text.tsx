/** A text of any length: what is long is folded, with how much there is, and opens in portions that stay fast. */
import { useMemo, useState } from "preact/hooks";
import { amount, count } from "../ui/format";
import { AnsiText, hasSequences } from "./ansi";
import { Code, languageOf } from "./code";
import { Markdown } from "./markdown";
import { visible } from "./visible";

const LONGEST_MARKDOWN = 30_000;
const PORTION = 100_000;

interface Props {
  text: string;
  markdown?: boolean;
  /** A file's name, or a language, for colours. */
  file?: string | undefined;
  /** How many characters, and lines, are shown unasked. */
  limit?: number;
  lines?: number;
}

export function LongText({ text, markdown = false, file, limit = 1500, lines = 18 }: Props) {
  const start = useMemo(() => beginning(text, limit, lines), [text, limit, lines]);
  const [end, setEnd] = useState<number | null>(null);
  const shown = Math.min(end ?? start, text.length);
  const cut = shown < text.length;
  return (
    <div class="long-text">
      <Shown text={cut ? text.slice(0, shown) : text} markdown={markdown} file={file} />
      {(cut || end !== null) && (
        <div class="fold">
          {cut && (
            <button type="button" class="link" onClick={() => setEnd(Math.min(text.length, Math.max(shown, 0) + PORTION))}>
              {text.length - shown > PORTION ? `Show ${count(PORTION)} more` : "Show all"}
            </button>
          )}
          {end !== null && (
            <button type="button" class="link" onClick={() => setEnd(null)}>
              Fold
            </button>
          )}
          <span class="muted">
            {cut ? `${count(shown)} of ` : ""}
            {amount(text)}
          </span>
        </div>
      )}
    </div>
  );
}

function Shown({ text, markdown, file }: { text: string; markdown: boolean; file?: string | undefined }) {
  const safe = useMemo(() => visible(text), [text]);
  if (markdown && safe.length <= LONGEST_MARKDOWN) return <Markdown text={safe} />;
  if (hasSequences(text)) return <AnsiText text={text} />;
  const language = file && languageOf(file);
  if (language) return <Code text={safe} language={language} />;
  return <div class="plain">{safe}</div>;
}

/** Where to cut: after so many lines or characters, unless little would be left. */
function beginning(text: string, limit: number, lines: number): number {
  let at = -1;
  for (let line = 0; line < lines; line += 1) {
    at = text.indexOf("\n", at + 1);
    if (at < 0 || at > limit) break;
  }
  const cut = at < 0 ? limit : Math.min(at, limit);
  return text.length <= cut * 1.25 ? text.length : cut;
}
