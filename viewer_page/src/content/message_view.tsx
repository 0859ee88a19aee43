/** One message of a prompt: its role, then its parts. A closed message is one line. */
import { useState } from "preact/hooks";
import type { RunStore } from "../data/run_store";
import type { Message, Part } from "../data/types";
import { count, firstLine } from "../ui/format";
import { jsonBeginning } from "./json_text";
import { Parts } from "./parts";
import { visible } from "./visible";

const ROLES = new Set(["system", "developer", "user", "assistant", "tool"]);

export function roleClass(role: string): string {
  return `role ${ROLES.has(role) ? role : "other"}`;
}

/** A message as text on one line. */
export function excerpt(parts: Part[], limit = 140): string {
  for (const part of parts) {
    if (part.type === "text" || part.type === "reasoning") {
      if (part.text.trim()) return visible(firstLine(part.text, limit));
    } else if (part.type === "tool_call") {
      return visible(firstLine(`${part.name} ${part.text ?? jsonBeginning(part.arguments, 4 * limit)}`, limit));
    } else {
      return part.type === "image" ? "image" : (part.kind ?? "JSON");
    }
  }
  return "(empty)";
}

export function MessageBody({ message, store }: { message: Omit<Message, "number"> & { number?: number }; store: RunStore }) {
  const number = message.number;
  const whole = number === undefined ? undefined : () => store.wholeMessage(number);
  const isTool = message.role === "tool" || message.role === "function";
  return (
    <div class={isTool ? "result" : undefined}>
      <Parts parts={message.parts} markdown={!isTool} whole={whole} />
    </div>
  );
}

/** A message of a list, which can be opened. `place` is its place in the prompt, counted from 1. */
export function MessageLine(props: { number: number; place?: number | undefined; store: RunStore; open?: boolean; mark?: string }) {
  const { number, store } = props;
  const [open, setOpen] = useState(props.open ?? false);
  const message = store.message(number);
  return (
    <div class={`message-line ${props.mark ?? ""}`}>
      <button type="button" class="message-head" aria-expanded={open} onClick={() => setOpen(!open)}>
        <span class="triangle" aria-hidden="true" />
        {props.place !== undefined && <span class="place">{props.place}</span>}
        <span class={roleClass(message?.role ?? "")}>{message ? visible(message.role) : "…"}</span>
        <span class="excerpt">{message && !open ? excerpt(message.parts) : ""}</span>
        {message && <span class="muted number">{count(message.characters)}</span>}
      </button>
      {open && message && (
        <div class="message-body">
          <MessageBody message={message} store={store} />
        </div>
      )}
    </div>
  );
}
