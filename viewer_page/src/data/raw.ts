/** The raw request of a call, restored from its items, and the commands that send it again. */
import { jsonText } from "../content/json_text";
import { numbersIn, type Source } from "./source";
import type { Raw } from "./types";

const NOTHING: NonNullable<Raw["sending"]> = { headers: {}, key: null };

/** The JSON that was sent. Each member of `items` is at its place again. */
export async function wholeRequest(source: Source, run: string, raw: Raw): Promise<unknown> {
  const { body, items } = raw.request ?? { body: null, items: undefined };
  if (typeof body !== "object" || body === null || !items) return body;
  const numbers = Object.values(items).flatMap((place) => (typeof place === "number" ? [place] : [...numbersIn(place)]));
  const values = await itemValues(source, run, numbers);
  const whole: Record<string, unknown> = { ...(body as Record<string, unknown>) };
  for (const [name, place] of Object.entries(items)) {
    setMember(whole, name, typeof place === "number" ? values.get(place) : [...numbersIn(place)].map((number) => values.get(number) ?? null));
  }
  return whole;
}

/** Sets a member of a request. The name "/request/contents" is that of a member of the object `request`, which is copied. */
function setMember(request: Record<string, unknown>, name: string, value: unknown): void {
  const [outer = "", ...inner] = name.slice(1).split("/");
  const members = request[outer];
  if (name in request || !name.startsWith("/") || typeof members !== "object" || members === null) request[name] = value;
  else request[outer] = { ...members, [inner.join("/")]: value };
}

async function itemValues(source: Source, run: string, numbers: number[]): Promise<Map<number, unknown>> {
  const values = new Map<number, unknown>();
  const sorted = [...new Set(numbers)].sort((a, b) => a - b);
  for (let at = 0; at < sorted.length; ) {
    let end = at;
    while (end + 1 < sorted.length && sorted[end + 1] === (sorted[end] ?? 0) + 1) end += 1;
    for (const item of await source.items(run, sorted[at] ?? 0, sorted[end] ?? 0)) values.set(item.number, item.value);
    at = end + 1;
  }
  return values;
}

/** JSON without characters that control a terminal. */
function safeJson(value: unknown, indent?: number): string {
  return jsonText(value, indent).replace(
    /[\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/**
 * An address or a method with control characters, spaces and letters beyond ASCII percent-encoded. An `@` at the beginning is
 * encoded too, because curl would read addresses from a file.
 */
function plain(text: string): string {
  const bytes = (some: string) => [...new TextEncoder().encode(some)];
  const escaped = (byte: number) => `%${byte.toString(16).toUpperCase().padStart(2, "0")}`;
  return text.replace(/^@|[^\x21-\x7e]+/g, (some) => bytes(some).map(escaped).join(""));
}

/** A command for bash. The body is a here-document, because a prompt may be longer than an argument may be. */
export function asCurl(raw: Raw, request: unknown): string {
  const { headers, key } = raw.sending ?? NOTHING;
  const lines = ["curl --silent --show-error --globoff --proto '=http,https'"];
  lines.push(`--request ${quoted(plain(raw.method ?? "POST"))}`);
  lines.push(`--url ${quoted(plain(raw.url ?? ""))}`);
  for (const [name, value] of Object.entries(headers)) lines.push(`--header ${quoted(`${name}: ${value}`)}`);
  if (key) lines.push(`--header "${key.header}: ${key.prefix}$${key.variable}"`);
  lines.push("--data-binary @- <<'END_OF_REQUEST'");
  return `${lines.join(" \\\n  ")}\n${safeJson(request)}\nEND_OF_REQUEST\n`;
}

export function asPython(raw: Raw, request: unknown): string {
  const { headers, key } = raw.sending ?? NOTHING;
  const lines = Object.entries(headers).map(([name, value]) => `    ${safeJson(name)}: ${safeJson(value)},`);
  if (key) lines.push(`    ${safeJson(key.header)}: ${key.prefix ? `${safeJson(key.prefix)} + ` : ""}os.environ["${key.variable}"],`);
  const [method, url] = [raw.method ?? "POST", raw.url ?? ""].map((text) => safeJson(plain(text)));
  return [
    ...(key ? ["import os", ""] : []),
    "import httpx",
    "",
    `request = ${literal(request, 0)}`,
    "headers = {",
    ...lines,
    "}",
    `response = httpx.request(${method}, ${url}, headers=headers, json=request, timeout=600)`,
    "print(response.status_code, response.text)",
    "",
  ].join("\n");
}

/** A JSON value as Python code. */
function literal(value: unknown, depth: number): string {
  if (value === null || value === undefined) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (typeof value !== "object") return safeJson(value);
  const pad = "    ".repeat(depth + 1);
  const end = "    ".repeat(depth);
  if (Array.isArray(value)) {
    if (value.length === 0) return "[]";
    return `[\n${value.map((one) => pad + literal(one, depth + 1)).join(",\n")},\n${end}]`;
  }
  const members = Object.entries(value);
  if (members.length === 0) return "{}";
  return `{\n${members.map(([name, one]) => `${pad}${safeJson(name)}: ${literal(one, depth + 1)}`).join(",\n")},\n${end}}`;
}
