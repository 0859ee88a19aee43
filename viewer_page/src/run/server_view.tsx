/** The calls of MCP servers in a tool: which server, its messages as they were sent, and what the model saw of its result. */
import { useEffect, useState } from "preact/hooks";
import { partText } from "../content/as_text";
import { type LoadWhole, PartView } from "../content/parts";
import { visible } from "../content/visible";
import { WordDiff } from "../content/word_diff";
import type { Part, ServerCall } from "../data/types";
import { RawValue } from "../panel/raw_tab";
import { Fold } from "../ui/elements";
import { duration, plural } from "../ui/format";
import { Labelled } from "./labelled";

export function ServerCalls({ calls, whole }: { calls: ServerCall[]; whole: LoadWhole | undefined }) {
  return (
    <>
      {calls.map((call, at) => (
        <Labelled key={at} label="server">
          <div class="server-head">
            <span class="server-name">{visible([call.server ?? "unknown", call.version].filter(Boolean).join(" "))}</span>
            <span class="muted">{visible(described(call))}</span>
            {call.joined_by === "execution" && call.success === false && <span class="tool-state failed">failed</span>}
          </div>
          {call.structured_content && (
            <Fold title="Structured content">{() => <PartView part={call.structured_content as Part} whole={whole} />}</Fold>
          )}
          <Fold title="Request and answer, as they were sent">{() => <Messages call={call} whole={whole} />}</Fold>
        </Labelled>
      ))}
    </>
  );
}

function described(call: ServerCall): string {
  const words = [];
  if (call.joined_by === "execution") words.push(call.tool ?? "", duration(call.duration_seconds));
  if (call.joined_by === "name") words.push("joined by name and arguments");
  if (call.progress > 0) words.push(`${plural(call.progress, "progress notification")}`);
  return words.filter(Boolean).join(", ");
}

/** The messages, which only the whole step has. */
function Messages({ call, whole }: { call: ServerCall; whole: LoadWhole | undefined }) {
  const [failure, setFailure] = useState<string | null>(null);
  useEffect(() => {
    if (call.messages || !whole) return;
    whole().catch((reason: unknown) => setFailure(reason instanceof Error ? reason.message : String(reason)));
  }, [call.messages === undefined]);
  if (failure) return <p class="bad-text">{visible(failure)}</p>;
  if (!call.messages) return <p class="muted">{whole ? "Loading…" : "They are not on file."}</p>;
  const [request, answer] = call.messages;
  return (
    <>
      <RawValue title="Request" value={request} known={request !== undefined} />
      <RawValue title="Answer" value={answer} known={answer !== undefined} />
    </>
  );
}

/** What the model saw, word by word against what the tool returned. */
export function Seen({ returned, seen, whole }: { returned: Part[]; seen: Part[]; whole: LoadWhole | undefined }) {
  const isCut = [...returned, ...seen].some((part) => part.cut);
  const [before, after] = [returned, seen].map((parts) => parts.map(partText).join("\n\n"));
  return (
    <Labelled label="seen" look="warning">
      <p>
        The model saw another result{isCut ? "; these are the beginnings of both" : ""}. Marked are <del>what it did not see</del> and{" "}
        <ins>what was added</ins>.
      </p>
      <div class="result">
        <WordDiff before={before ?? ""} after={after ?? ""} />
      </div>
      {isCut && whole && (
        <button type="button" class="link" onClick={() => void whole()}>
          Compare the whole
        </button>
      )}
    </Labelled>
  );
}
