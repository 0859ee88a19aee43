/** The JSON of the request and of the response, as trees. */
import { pretty } from "../content/as_text";
import { JsonTree } from "../content/json_tree";
import { LongText } from "../content/long_text";
import { visible } from "../content/visible";
import type { Call } from "../data/types";
import { useRun } from "../run/context";
import { CopyButton } from "../ui/elements";
import { useRaw } from "./use_raw";

export function RawTab({ call }: { call: Call }) {
  const { store } = useRun();
  const { loaded, error } = useRaw(store, call);
  if (error) return <p class="bad-text">{error}</p>;
  if (!loaded) return <p class="muted">Loading…</p>;
  const { raw, request } = loaded;
  return (
    <>
      {raw.url && (
        <p class="mono address">
          {visible(raw.method ?? "")} {visible(raw.url)}
        </p>
      )}
      <RawValue title="Request" value={request} known={raw.request !== null} />
      <RawValue title={raw.stream ? "Response, assembled from the stream" : "Response"} value={raw.response} known={raw.response !== null} />
    </>
  );
}

export function RawValue({ title, value, known }: { title: string; value: unknown; known: boolean }) {
  return (
    <section>
      <div class="section-head">
        <h4>{title}</h4>
        {known && <CopyButton label="Copy" text={() => pretty(value)} />}
      </div>
      {!known && <p class="muted">It is not on file.</p>}
      {known && (typeof value === "string" ? <LongText text={value} /> : <JsonTree value={value} open={2} />)}
    </section>
  );
}
