/** The differences of a pair of steps that its two sides do not show: prompts, parameters, tools and results, value by value. */
import { useEffect, useState } from "preact/hooks";
import { jsonText } from "../content/json_text";
import { LongText } from "../content/long_text";
import { visible } from "../content/visible";
import type { Source } from "../data/source";
import type { Difference, PairDifferences, ValueChange } from "../data/types";
import { WORDS } from "./alignment";

/** The two sides mark the words of answers and tool calls. */
const IN_THE_SIDES: ReadonlySet<Difference> = new Set(["answer", "tool_call", "missing"]);

export function ChangesView({ source, ids, number }: { source: Source; ids: [string, string]; number: number }) {
  const [differences, setDifferences] = useState<PairDifferences["differences"]>([]);
  const [failure, setFailure] = useState<string | null>(null);
  useEffect(() => {
    let wanted = true;
    source.differences(...ids, number).then(
      (pair) => wanted && setDifferences(pair.differences.filter((one) => !IN_THE_SIDES.has(one.kind))),
      (failure: unknown) => wanted && setFailure(failure instanceof Error ? failure.message : String(failure)),
    );
    return () => {
      wanted = false;
    };
  }, [source, ids[0], ids[1], number]);
  if (failure) return <p class="pair-changes warn">{failure}</p>;
  if (differences.length === 0) return null;
  return (
    <dl class="pair-changes">
      {differences.map(({ kind, changes }) => (
        <div key={kind}>
          <dt>{WORDS[kind]}</dt>
          {changes.map((change, at) => (
            <dd key={at}>
              {change.path && <span class="mono muted">{visible(change.path)} </span>}
              <Change change={change} />
            </dd>
          ))}
        </div>
      ))}
    </dl>
  );
}

function Change({ change }: { change: ValueChange }) {
  if (change.words) {
    return (
      <span class="plain">
        {change.words.map(({ kind, text }, at) => {
          const Look = kind === "removed" ? "del" : kind === "added" ? "ins" : "span";
          return <Look key={at}>{visible(text)}</Look>;
        })}
      </span>
    );
  }
  return (
    <>
      {"before" in change && (
        <del class="block">
          <LongText text={textOf(change.before)} limit={400} lines={6} />
        </del>
      )}
      {"after" in change && (
        <ins class="block">
          <LongText text={textOf(change.after)} limit={400} lines={6} />
        </ins>
      )}
    </>
  );
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : jsonText(value, 2);
}
