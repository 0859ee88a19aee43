/** A step of each run next to each other. Different words are marked. */
import { diffWordsWithSpace } from "diff";
import { useMemo } from "preact/hooks";
import { LongText } from "../content/long_text";
import { visible } from "../content/visible";
import { hashOf } from "../data/route";
import { ownCall, rowNumber, rowSeconds } from "../data/rows";
import type { Source } from "../data/source";
import { duration } from "../ui/format";
import { differing, type Pair, type Side } from "./alignment";
import { ChangesView } from "./changes_view";

const LONGEST = 8_000;
const LEAST_EQUAL = 0.25;

export function PairView({ pair, source, ids }: { pair: Pair; source: Source; ids: [string, string] }) {
  return (
    <>
      <div class={`pair ${pair.differs.length === 0 ? "same" : "different"}`}>
        <SideView side={pair.a} other={pair.b} id={ids[0]} look="del" note="" />
        <SideView side={pair.b} other={pair.a} id={ids[1]} look="ins" note={differing(pair)} />
      </div>
      {pair.differs.length > 0 && <ChangesView source={source} ids={ids} number={pair.number} />}
    </>
  );
}

interface SideProps {
  side: Side | null;
  other: Side | null;
  id: string;
  look: "del" | "ins";
  note: string;
}

function SideView({ side, other, id, look, note }: SideProps) {
  if (!side) return <div class="side absent muted">{look === "del" ? "not in A" : "not in B"}</div>;
  const call = ownCall(side.row);
  const step = side.row.step?.number;
  const place = step === undefined ? { page: "run" as const, run: id, call: call?.number } : { page: "run" as const, run: id, step };
  return (
    <div class={`side ${side.failed ? "failed" : ""}`}>
      <header>
        <a href={hashOf(place)}>Step {rowNumber(side.row)}</a>
        <span class="muted">{visible(call?.model ?? "")}</span>
        <span class="muted">{duration(rowSeconds(side.row))}</span>
        {note && <span class="warn">{note}</span>}
      </header>
      <Piece text={side.answer} other={other?.answer} look={look} />
      <Piece text={side.tools} other={other?.tools} look={look} mono />
      <Piece text={side.results} other={other?.results} look={look} mono quiet />
    </div>
  );
}

function Piece(props: { text: string; other: string | undefined; look: "del" | "ins"; mono?: boolean; quiet?: boolean }) {
  const { text, other, look } = props;
  const words = useMemo(() => (other === undefined || other === text ? null : marked(text, other, look)), [text, other, look]);
  if (!text) return null;
  const name = `piece ${props.mono ? "result" : ""} ${props.quiet ? "muted" : ""}`;
  if (!words) {
    return (
      <div class={name}>
        <LongText text={text} limit={400} lines={6} />
      </div>
    );
  }
  return (
    <div class={`${name} plain`}>
      {words.map(({ value, isDifferent }, at) => {
        const Look = isDifferent ? look : "span";
        return <Look key={at}>{visible(value)}</Look>;
      })}
    </div>
  );
}

/** The words of a text, with marks for those that the other text does not have. Long texts are not compared by word. */
function marked(text: string, other: string, look: "del" | "ins"): { value: string; isDifferent: boolean }[] | null {
  if (text.length + other.length > LONGEST) return null;
  const changes = look === "del" ? diffWordsWithSpace(text, other) : diffWordsWithSpace(other, text);
  const equal = changes.reduce((sum, one) => sum + (one.added || one.removed ? 0 : one.value.trim().length), 0);
  if (equal < LEAST_EQUAL * Math.min(text.length, other.length)) return null;
  const own = changes.filter((one) => (look === "del" ? !one.added : !one.removed));
  return own.map((one) => ({ value: one.value, isDifferent: Boolean(one.added || one.removed) }));
}
