/**
 * Recorded text for the screen: visible signs replace the characters that control a terminal or the order of other characters.
 * Copied text is unchanged.
 */

const STEERING = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2060-\u2069\ufeff]/g;

export function visible(text: string): string {
  return text.replace(/\r\n/g, "\n").replace(STEERING, sign);
}

function sign(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  if (code === 0x1b) return "⟨ESC⟩";
  return `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
}
