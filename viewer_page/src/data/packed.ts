/**
 * The data of the self-contained file. Each section is compressed JSON, which is opened at its first use. Long texts are in the
 * section `texts`. A string that begins with MARK names a text by its number.
 */
import type { Sections } from "./types";

const MARK = "\u0001";

export class PackedData {
  private readonly opened = new Map<string, Promise<unknown>>();

  constructor(private readonly sections: Sections) {}

  section<T>(name: string): Promise<T> {
    const known = this.opened.get(name) ?? this.open(name);
    this.opened.set(name, known);
    return known as Promise<T>;
  }

  private async open(name: string): Promise<unknown> {
    const text = this.sections[name];
    if (text === undefined) throw new Error(`This file is damaged: its section "${name}" is missing.`);
    const value = await inflated(text);
    return name === "texts" ? value : withTexts(value, await this.section<string[]>("texts"));
  }
}

async function inflated(base64: string): Promise<unknown> {
  if (typeof DecompressionStream === "undefined") {
    throw new Error(
      "The data of this file are compressed, and this browser is too old to open them. " +
        "Browsers since 2023 can: Chrome and Edge since 80, Firefox since 113, Safari since 16.4.",
    );
  }
  try {
    const compressed = new Blob([bytesOf(base64)]).stream();
    return await new Response(compressed.pipeThrough(new DecompressionStream("deflate"))).json();
  } catch (failure) {
    throw new Error(`This file is damaged: ${failure instanceof Error ? failure.message : String(failure)}`);
  }
}

function bytesOf(base64: string): Uint8Array<ArrayBuffer> {
  const characters = atob(base64);
  const bytes = new Uint8Array(characters.length);
  for (let at = 0; at < bytes.length; at += 1) bytes[at] = characters.charCodeAt(at);
  return bytes;
}

/** Replace the names of texts by the texts. The value may be nested deeper than the stack allows. */
function withTexts(value: unknown, texts: string[]): unknown {
  const whole = [value];
  const waiting: object[] = [whole];
  for (let branch = waiting.pop(); branch; branch = waiting.pop()) {
    const members = branch as Record<string, unknown>;
    for (const key of Object.keys(members)) {
      const member = members[key];
      if (typeof member === "string") {
        if (member.startsWith(MARK)) members[key] = texts[Number(member.slice(1))];
      } else if (typeof member === "object" && member !== null) waiting.push(member);
    }
  }
  return whole[0];
}
