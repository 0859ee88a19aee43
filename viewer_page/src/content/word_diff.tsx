/** Two texts with the words that were removed and added. Long equal stretches are folded. */
import { type ChangeObject, diffLines, diffWordsWithSpace } from "diff";
import { useMemo } from "preact/hooks";
import { Fold } from "../ui/elements";
import { amount } from "../ui/format";
import { LongText } from "./long_text";
import { visible } from "./visible";

const LONGEST_BY_WORD = 40_000;
const MOST_EDITS = 4_000;
const CONTEXT = 160;
const LEAST_EQUAL = 0.25;

export function WordDiff({ before, after }: { before: string; after: string }) {
  const changes = useMemo(() => differencesOf(before, after), [before, after]);
  if (!changes) {
    return (
      <div class="diff">
        <del class="block">
          <LongText text={before} />
        </del>
        <ins class="block">
          <LongText text={after} />
        </ins>
      </div>
    );
  }
  return (
    <div class="diff plain">
      {changes.map((change, at) => {
        const text = visible(change.value);
        if (change.added) return <ins key={at}>{text}</ins>;
        if (change.removed) return <del key={at}>{text}</del>;
        return <Equal key={at} text={text} first={at === 0} last={at === changes.length - 1} />;
      })}
    </div>
  );
}

/** The differences by word, or by line for a long text. Nothing, if the texts have too little in common. */
function differencesOf(before: string, after: string): ChangeObject<string>[] | undefined {
  const limits = { maxEditLength: MOST_EDITS, timeout: 400 };
  const byWord = before.length + after.length <= LONGEST_BY_WORD;
  const changes = byWord ? diffWordsWithSpace(before, after, limits) : diffLines(before, after, limits);
  if (!changes || before === "" || after === "") return changes;
  const letters = (text: string) => text.replace(/\s+/g, "").length;
  const equal = changes.reduce((sum, one) => sum + (one.added || one.removed ? 0 : letters(one.value)), 0);
  return equal < LEAST_EQUAL * Math.min(letters(before), letters(after)) ? undefined : changes;
}

function Equal({ text, first, last }: { text: string; first: boolean; last: boolean }) {
  const kept = first || last ? CONTEXT : 2 * CONTEXT;
  if (text.length <= kept + 200) return <span>{text}</span>;
  const head = first ? "" : text.slice(0, CONTEXT);
  const tail = last ? "" : text.slice(-CONTEXT);
  const middle = text.slice(head.length, text.length - tail.length);
  return (
    <span>
      {head}
      <Fold class="inline equal" title={`… ${amount(middle)} as before …`}>
        {() => <span>{middle}</span>}
      </Fold>
      {tail}
    </span>
  );
}
