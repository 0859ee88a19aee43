/**
 * Text with the colours of a terminal. Only SGR codes are drawn, as spans. Other control sequences of a terminal are left out.
 * Hidden text is shown.
 */
import Anser, { type AnserJsonEntry } from "anser";
import { useMemo } from "preact/hooks";
import { visible } from "./visible";

const SEQUENCE = /\u001b\[/;
const SEQUENCES = /\u001b\[[\x30-\x3f]*[\x20-\x2f]*[\x40-\x7e]/g;
/** Sequences that the parser does not know: colours with colons, and an incomplete sequence at the end. */
const UNKNOWN = /\u001b\[[\d;]*:[\d:;]*m|\u001b\[[\x20-\x3f]*$/g;
const MOST_SEQUENCES = 5_000;
const LOOKS = new Set(["bold", "dim", "italic", "underline", "strikethrough"]);

export function hasSequences(text: string): boolean {
  return SEQUENCE.test(text);
}

/** The text alone. */
export function withoutSequences(text: string): string {
  return hasSequences(text) ? text.replace(SEQUENCES, "") : text;
}

export function AnsiText({ text }: { text: string }) {
  const pieces = useMemo(() => coloured(text), [text]);
  return <div class="plain">{pieces?.map((piece, at) => <Piece key={at} piece={piece} />) ?? visible(withoutSequences(text))}</div>;
}

/** The pieces of a text, each with its look. Nothing, if there are too many. */
function coloured(text: string): AnserJsonEntry[] | undefined {
  const known = text.replace(UNKNOWN, "");
  return known.split(SEQUENCE, MOST_SEQUENCES).length < MOST_SEQUENCES ? Anser.ansiToJson(known, { remove_empty: true }) : undefined;
}

/** A reversed piece. The parser exchanges its colours, and assumes a black terminal if the piece has no colours. */
type Piece = AnserJsonEntry & { isInverted?: boolean };

function Piece({ piece }: { piece: Piece }) {
  const looks: string[] = piece.decorations.filter((one) => LOOKS.has(one));
  if (piece.isInverted) looks.push("reverse");
  if (piece.fg && !piece.isInverted) looks.push("fg");
  if (piece.bg && !piece.isInverted) looks.push("bg");
  const text = visible(piece.content);
  if (looks.length === 0) return <span>{text}</span>;
  const colours = { "--ansi-fg": `rgb(${piece.fg ?? "0, 0, 0"})`, "--ansi-bg": `rgb(${piece.bg ?? "0, 0, 0"})` };
  return (
    <span class={looks.map((one) => `ansi-${one}`).join(" ")} style={colours}>
      {text}
    </span>
  );
}
