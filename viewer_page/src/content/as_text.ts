/** A message as one text, to compare it with another message. */
import type { Message, Part } from "../data/types";
import { jsonText } from "./json_text";

export function messageText(message: Message): string {
  return message.parts.map(partText).join("\n\n");
}

export function partText(part: Part): string {
  switch (part.type) {
    case "text":
    case "reasoning":
      return part.text;
    case "tool_call":
      return `${part.name}\n${part.cut ? (part.text ?? "") : argumentsText(part.arguments)}`;
    case "image":
      return `[image ${part.media_type ?? ""} ${part.url ?? `${part.data?.length ?? part.characters ?? 0} characters`}]`;
    case "json":
      return part.cut ? (part.text ?? "") : pretty(part.value);
  }
}

export function pretty(value: unknown): string {
  return typeof value === "string" ? value : jsonText(value, 2);
}

/** Arguments as lines, `name: value`. Texts of several lines are unchanged, so their words can be compared. */
export function argumentsText(value: unknown): string {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return pretty(value);
  return Object.entries(value)
    .map(([name, one]) => (typeof one === "string" && one.includes("\n") ? `${name}:\n${one}` : `${name}: ${flat(one)}`))
    .join("\n");
}

function flat(value: unknown): string {
  return typeof value === "string" ? value : jsonText(value);
}
