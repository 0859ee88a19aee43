/** The panel of one call: what changed in the prompt, the prompt, the answer, the raw JSON, the stream, the timing. */
import { useEffect, useRef } from "preact/hooks";
import { pretty } from "../content/as_text";
import { Drawn } from "../content/drawn";
import { jsonText } from "../content/json_text";
import { visible } from "../content/visible";
import { asCurl, asPython } from "../data/raw";
import type { PanelTab } from "../data/route";
import type { Call, Raw } from "../data/types";
import { useRun } from "../run/context";
import { CopyButton } from "../ui/elements";
import { AnswerTab } from "./answer_tab";
import { ChangesTab } from "./changes_tab";
import { PromptTab } from "./prompt_tab";
import { RawTab } from "./raw_tab";
import { StreamTab } from "./stream_tab";
import { TimingTab } from "./timing_tab";
import { loadRaw } from "./use_raw";

const TABS: { tab: PanelTab; name: string; View: (props: { call: Call }) => preact.ComponentChild }[] = [
  { tab: "changes", name: "Changes", View: ChangesTab },
  { tab: "prompt", name: "Prompt", View: PromptTab },
  { tab: "answer", name: "Answer", View: AnswerTab },
  { tab: "raw", name: "Raw", View: RawTab },
  { tab: "stream", name: "Stream", View: StreamTab },
  { tab: "timing", name: "Timing", View: TimingTab },
];

export function CallPanel({ call, tab, close }: { call: Call; tab: PanelTab; close: () => void }) {
  const { openCall, outline } = useRun();
  const body = useRef<HTMLDivElement>(null);
  useEffect(() => body.current?.scrollTo(0, 0), [call.number, tab]);
  const { View } = TABS.find((one) => one.tab === tab) ?? { View: ChangesTab };
  const tabs = TABS.filter((one) => one.tab !== "stream" || call.stream);
  const move = (by: number) => {
    const at = tabs.findIndex((one) => one.tab === tab);
    const next = tabs[(at + by + tabs.length) % tabs.length];
    if (next) openCall(call.number, next.tab);
    document.getElementById(`tab-${next?.tab}`)?.focus();
  };
  const turn = (by: number) => {
    const next = outline.interactions[call.number - 1 + by];
    if (next) openCall(next.number, tab);
  };
  return (
    <aside class="panel" aria-label={`Call ${call.number}`}>
      <header>
        <h3>
          Call {call.number} <span class="muted mono">{visible(call.id)}</span>
        </h3>
        <button type="button" class="icon" aria-label="Previous call" disabled={call.number === 1} onClick={() => turn(-1)}>
          ‹
        </button>
        <button
          type="button"
          class="icon"
          aria-label="Next call"
          disabled={call.number === outline.interactions.length}
          onClick={() => turn(1)}
        >
          ›
        </button>
        <span class="spacer" />
        <CopyAs call={call} />
        <button type="button" class="icon" aria-label="Close the panel" onClick={close}>
          ✕
        </button>
      </header>
      <div
        class="tabs"
        role="tablist"
        aria-label="Parts of the call"
        onKeyDown={(event) => {
          if (event.key === "ArrowRight") move(1);
          if (event.key === "ArrowLeft") move(-1);
        }}
      >
        {tabs.map((one) => (
          <button
            key={one.tab}
            id={`tab-${one.tab}`}
            type="button"
            role="tab"
            aria-selected={one.tab === tab}
            aria-controls="panel-body"
            tabIndex={one.tab === tab ? 0 : -1}
            onClick={() => openCall(call.number, one.tab)}
          >
            {one.name}
          </button>
        ))}
      </div>
      <div id="panel-body" class="panel-body" role="tabpanel" aria-labelledby={`tab-${tab}`} tabIndex={0} ref={body}>
        <Drawn of={call} text={() => jsonText(call, 2)}>
          <View key={`${call.number}-${tab}`} call={call} />
        </Drawn>
      </div>
    </aside>
  );
}

function CopyAs({ call }: { call: Call }) {
  const { store } = useRun();
  const copied = async (as: (raw: Raw, request: unknown) => string) => {
    const { raw, request } = await loadRaw(store, call);
    if (raw.request === null) throw new Error("the request is not on file");
    return as(raw, request);
  };
  return (
    <span class="copy-as" role="group" aria-label="Copy the request">
      <span class="muted">Copy</span>
      <CopyButton label="JSON" title="the request as JSON" text={() => copied((_, request) => pretty(request))} />
      <CopyButton label="cURL" title="a command for bash that sends the request again" text={() => copied(asCurl)} />
      <CopyButton label="Python" title="a program that sends the request again" text={() => copied(asPython)} />
    </span>
  );
}
