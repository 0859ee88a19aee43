/** JSON values as text. Thousands of nested levels overflow the stack of `JSON.stringify`. These functions need no stack. */

/** The whole text. A value that is nested too deeply for indentation is on one line. */
export function jsonText(value: unknown, indent?: number): string {
  try {
    return JSON.stringify(value, null, indent) ?? "";
  } catch {
    return [...pieces(value)].join("");
  }
}

/** At most the first `limit` characters of the text. The rest is not written. */
export function jsonBeginning(value: unknown, limit: number): string {
  let text = "";
  for (const piece of pieces(value)) {
    text += piece;
    if (text.length >= limit) break;
  }
  return text.slice(0, limit);
}

function* pieces(value: unknown): Generator<string> {
  const rest: (string | { value: unknown })[] = [{ value }];
  for (let next = rest.pop(); next !== undefined; next = rest.pop()) {
    if (typeof next === "string") yield next;
    else if (typeof next.value !== "object" || next.value === null) yield JSON.stringify(next.value) ?? "null";
    else rest.push(...written(next.value).reverse());
  }
}

/** A list or an object: its brackets, and the members that are still to be written. */
function written(branch: object): (string | { value: unknown })[] {
  const isList = Array.isArray(branch);
  const members = Object.entries(branch).flatMap(([name, value], at) => [
    (at > 0 ? "," : "") + (isList ? "" : `${JSON.stringify(name)}:`),
    { value: value as unknown },
  ]);
  return [isList ? "[" : "{", ...members, isList ? "]" : "}"];
}
