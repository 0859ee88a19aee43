/** A message as one text, for comparing it with another. */
import type { Message, Part } from "../data/types";

export function messageText(message: Message): string {
  return message.parts.map(partText).join("\n\n");
}

export function partText(part: Part): string {
  switch (part.type) {
    case "text":
    case "reasoning":
      return part.text;
    case "tool_call":
      return `${part.name} ${part.cut ? (part.text ?? "") : pretty(part.arguments)}`;
    case "image":
      return `[image ${part.media_type ?? ""} ${part.url ?? `${part.data?.length ?? part.characters ?? 0} characters`}]`;
    case "json":
      return part.cut ? (part.text ?? "") : pretty(part.value);
  }
}

export function pretty(value: unknown): string {
  return typeof value === "string" ? value : (JSON.stringify(value, null, 2) ?? "");
}
