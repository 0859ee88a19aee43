/** Which addresses of recorded text may become links, and which data may become an image. */

const LINKS = new Set(["http:", "https:", "mailto:"]);
const IMAGES = /^data:image\/(png|jpeg|gif|webp|avif|bmp);base64,[A-Za-z0-9+/=\s]*$/;

/** The address, if a click on it leads to a page or a mail; else nothing. */
export function safeAddress(text: string): string | undefined {
  try {
    const address = new URL(text);
    return LINKS.has(address.protocol) ? address.href : undefined;
  } catch {
    return undefined;
  }
}

/** The text, if it is a bitmap that the browser draws without running anything; SVG is none. */
export function safeImage(text: string): string | undefined {
  return text.startsWith("data:image/") && IMAGES.test(text) ? text : undefined;
}
