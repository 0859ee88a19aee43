/** A text of any length. A long text is folded, shows its size, and opens in portions. */
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
  /** The name of a file, or a language, by which the text is coloured. */
  file?: string | undefined;
  /** The number of characters and lines that are shown at first. */
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

/** The place of the cut: after so many lines or characters, unless the rest is short. */
function beginning(text: string, limit: number, lines: number): number {
  let at = -1;
  for (let line = 0; line < lines; line += 1) {
    at = text.indexOf("\n", at + 1);
    if (at < 0 || at > limit) break;
  }
  const cut = at < 0 ? limit : Math.min(at, limit);
  return text.length <= cut * 1.25 ? text.length : cut;
}
