/** The changes of a request against the earlier request: messages, with edits word by word, tools and parameters. */
import { messageText, pretty } from "../content/as_text";
import { MessageLine, roleClass } from "../content/message_view";
import { visible } from "../content/visible";
import { WordDiff } from "../content/word_diff";
import {
  type Difference, parameterDifferences, promptCounts, type Stretch, stretches, toolDifferences,
} from "../data/prompts";
import type { Call } from "../data/types";
import { useRun } from "../run/context";
import { Fold } from "../ui/elements";
import { plural } from "../ui/format";

export function ChangesTab({ call }: { call: Call }) {
  const { outline, prompts } = useRun();
  const before = call.prompt.base === null ? undefined : outline.interactions[call.prompt.base - 1];
  if (!call.prompt.known) return <p class="muted">The request is not on file.</p>;
  const list = stretches(prompts, call);
  return (
    <>
      <Summary call={call} before={before} />
      <Differences title="Tools" found={toolDifferences(outline, before, call)} />
      <Differences title="Parameters" found={parameterDifferences(outline, before, call)} />
      <StretchList list={list} />
    </>
  );
}

const RELATIONS: Record<Call["prompt"]["relation"], string> = {
  begins: "A new conversation",
  extends: "Continues",
  edits: "Edits the history of",
  rewrites: "Rewrites the history of",
  refers: "Sends only new messages, and refers to",
};

function Summary({ call, before }: { call: Call; before: Call | undefined }) {
  const { openCall, prompts } = useRun();
  const counts = promptCounts(prompts, call);
  const words = [
    counts.same ? `${counts.same} as before` : "",
    counts.added ? `${counts.added} added` : "",
    counts.changed ? `${counts.changed} changed` : "",
    counts.removed ? `${counts.removed} removed` : "",
  ].filter(Boolean);
  return (
    <p class="diff-summary">
      {RELATIONS[call.prompt.relation]}
      {before && " "}
      {before && (
        <button type="button" class="link" onClick={() => openCall(before.number, "changes")}>
          {visible(before.id)}
        </button>
      )}
      {before ? ": " : ", "}
      {plural(call.prompt.count, "message")}
      {before && words.length > 0 ? `, ${words.join(", ")}` : ""}
    </p>
  );
}

function StretchList({ list }: { list: Stretch[] }) {
  const { store } = useRun();
  let place = 0;
  return (
    <div class="stretches">
      {list.map((stretch, at) => {
        const first = place + 1;
        if (stretch.kind === "changed") place += stretch.after.length;
        else if (stretch.kind !== "removed") place += stretch.messages.length;
        switch (stretch.kind) {
          case "same":
            return (
              <Fold key={at} class="same" title={`${plural(stretch.messages.length, "message")} as before`}>
                {() => stretch.messages.map((number, i) => <MessageLine key={i} number={number} place={first + i} store={store} />)}
              </Fold>
            );
          case "added":
          case "removed":
            return stretch.messages.map((number, i) => (
              <MessageLine
                key={`${at}-${i}`}
                number={number}
                place={stretch.kind === "added" ? first + i : undefined}
                store={store}
                open={i < 6}
                mark={stretch.kind}
              />
            ));
          case "changed":
            return <Changed key={at} before={stretch.before} after={stretch.after} first={first} />;
        }
      })}
    </div>
  );
}

/** Messages that replaced others. Pairs of the same role are compared by word. The others are shown alone. */
function Changed({ before, after, first }: { before: number[]; after: number[]; first: number }) {
  const { store } = useRun();
  const both = Math.min(before.length, after.length);
  return (
    <>
      {after.slice(0, both).map((number, at) => (
        <ChangedPair key={number} before={before[at] ?? 0} after={number} place={first + at} />
      ))}
      {before.slice(both).map((number) => (
        <MessageLine key={`-${number}`} number={number} store={store} open={before.length - both <= 6} mark="removed" />
      ))}
      {after.slice(both).map((number, at) => (
        <MessageLine key={`+${number}`} number={number} place={first + both + at} store={store} open={after.length - both <= 6} mark="added" />
      ))}
    </>
  );
}

function ChangedPair({ before, after, place }: { before: number; after: number; place: number }) {
  const { store } = useRun();
  const [old, fresh] = [store.message(before), store.message(after)];
  if (!old || !fresh) return <div class="muted">Loading…</div>;
  if (old.role !== fresh.role) {
    return (
      <>
        <MessageLine number={before} store={store} open mark="removed" />
        <MessageLine number={after} place={place} store={store} open mark="added" />
      </>
    );
  }
  return (
    <div class="message-line changed">
      <div class="message-head">
        <span class="place">{place}</span>
        <span class={roleClass(fresh.role)}>{visible(fresh.role)}</span>
        <span class="excerpt muted">changed</span>
      </div>
      <div class="message-body">
        <WordDiff before={messageText(old)} after={messageText(fresh)} />
      </div>
    </div>
  );
}

function Differences({ title, found }: { title: string; found: Difference<unknown>[] }) {
  if (found.length === 0) return null;
  return (
    <section class="differences">
      <h4>{title}</h4>
      {found.map((one) => (
        <div key={one.name} class={`message-line ${one.before === undefined ? "added" : one.after === undefined ? "removed" : "changed"}`}>
          <div class="message-head">
            <span class="mono">{visible(one.name)}</span>
            <span class="muted">{one.before === undefined ? "added" : one.after === undefined ? "removed" : "changed"}</span>
          </div>
          <div class="message-body">
            <WordDiff before={one.before === undefined ? "" : pretty(one.before)} after={one.after === undefined ? "" : pretty(one.after)} />
          </div>
        </div>
      ))}
    </section>
  );
}
