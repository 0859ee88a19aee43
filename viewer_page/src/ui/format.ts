/** Numbers, times and sizes as short text for people. Pure functions. An unknown value becomes an empty text. */
import type { Call } from "../data/types";

const grouped = new Intl.NumberFormat("en-US");

export function count(value: number | null | undefined): string {
  return value == null ? "" : grouped.format(value);
}

/** 950, 12.3k, 4.1M: for columns, where the size matters more than the digits. */
export function short(value: number | null | undefined): string {
  if (value == null) return "";
  if (Math.abs(value) < 1000) return String(value);
  if (Math.abs(value) < 999_500) return trimmed(value / 1000) + "k";
  return trimmed(value / 1_000_000) + "M";
}

function trimmed(value: number): string {
  return value >= 100 ? value.toFixed(0) : value.toFixed(1).replace(/\.0$/, "");
}

export function plural(value: number, word: string, many = word + "s"): string {
  return `${count(value)} ${value === 1 ? word : many}`;
}

export function duration(seconds: number | null | undefined): string {
  if (seconds == null) return "";
  if (seconds < 0.9995) return `${Math.max(seconds * 1000, 0).toFixed(seconds < 0.00995 ? 1 : 0).replace(/\.0$/, "")} ms`;
  if (seconds < 10) return `${seconds.toFixed(2)} s`;
  if (seconds < 59.95) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  if (whole < 3600) return `${Math.floor(whole / 60)} min${whole % 60 ? ` ${whole % 60} s` : ""}`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}

export function bytes(value: number | null | undefined): string {
  if (value == null) return "";
  if (value < 1000) return `${value} B`;
  if (value < 1_000_000) return `${(value / 1000).toFixed(value < 10_000 ? 1 : 0)} kB`;
  return `${(value / 1_000_000).toFixed(1)} MB`;
}

export function cost(dollars: number | null | undefined): string {
  if (dollars == null) return "";
  if (dollars === 0) return "$0";
  return dollars < 0.01 ? `$${dollars.toFixed(5).replace(/0+$/, "")}` : `$${dollars.toFixed(dollars < 1 ? 3 : 2)}`;
}

/** The sum of the costs of some calls, and the source of the costs. */
export interface Cost {
  dollars: number | null;
  /** Whether a part of the sum is an estimate by a table of prices. Other costs are stated by the provider. */
  estimated: boolean;
  /** The number of calls with tokens whose price is unknown, in whole or in part. What is unknown is not in the sum. */
  withoutPrice: number;
}

type Priced = Pick<Call, "cost" | "cost_estimated" | "without_rate" | "prompt_tokens">;

export function costOf(calls: Priced[]): Cost {
  const known = calls.filter((call) => call.cost != null);
  return {
    dollars: known.length > 0 ? known.reduce((sum, call) => sum + (call.cost ?? 0), 0) : null,
    estimated: known.some((call) => call.cost_estimated),
    withoutPrice: calls.filter((call) => (call.cost == null ? call.prompt_tokens != null : call.without_rate?.length)).length,
  };
}

/** "≈ $0.012" for an estimate, and "+ ?" for a cost that is unknown in part. */
export function costText({ dollars, estimated, withoutPrice }: Cost): string {
  return dollars === null ? "" : `${estimated ? "≈ " : ""}${cost(dollars)}${withoutPrice > 0 ? " + ?" : ""}`;
}

export function costNote({ dollars, estimated, withoutPrice }: Cost): string {
  if (dollars === null) return withoutPrice > 0 ? "no price is known" : "";
  const source = estimated ? "estimated by a table of prices" : "as the provider states it";
  return withoutPrice > 0 ? `${source}, the price of ${plural(withoutPrice, "call")} is not fully known` : source;
}

export function percent(part: number, whole: number): string {
  return whole > 0 ? `${Math.round((100 * part) / whole)} %` : "";
}

/** Milliseconds since 1970, or NaN if the text is not a time. */
export function instant(iso: string | null | undefined): number {
  return iso ? Date.parse(iso) : Number.NaN;
}

function two(value: number): string {
  return String(value).padStart(2, "0");
}

/** The time of day in the reader's zone: 11:31:55. */
export function clock(iso: string | null | undefined): string {
  const date = new Date(instant(iso));
  if (Number.isNaN(date.getTime())) return "";
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

/** Day and time, to the second: 2026-11-22 11:31:55. */
export function dateTime(iso: string | null | undefined): string {
  const date = new Date(instant(iso));
  if (Number.isNaN(date.getTime())) return "";
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${clock(iso)}`;
}

/** The time since then, such as "3 min ago", or the date if that is more than a day. */
export function ago(iso: string | null | undefined, now: number): string {
  const then = instant(iso);
  if (Number.isNaN(then)) return "";
  const seconds = Math.max(0, (now - then) / 1000);
  if (seconds < 60) return "just now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ago`;
  return dateTime(iso).slice(0, 16);
}

/** The first line of a text, shortened to a length. */
export function firstLine(text: string, limit = 160): string {
  const line = text.slice(0, limit * 4).trimStart().split("\n", 1)[0] ?? "";
  return line.length > limit ? line.slice(0, limit - 1) + "…" : line;
}

/** The size of a folded text: "12,345 characters, 240 lines". */
export function amount(text: string): string {
  let lines = 1;
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) lines += 1;
  const size = `${count(text.length)} characters`;
  return lines > 1 ? `${size}, ${plural(lines, "line")}` : size;
}
