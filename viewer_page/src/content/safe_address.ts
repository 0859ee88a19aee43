/** Decides which addresses in recorded text may become links, and which data may become images. */

const LINKS = new Set(["http:", "https:", "mailto:"]);
const IMAGES = /^data:image\/(png|jpeg|gif|webp|avif|bmp);base64,[A-Za-z0-9+/=\s]*$/;

/** The address, if it is that of a page or a mail; otherwise nothing. */
export function safeAddress(text: string): string | undefined {
  try {
    const address = new URL(text);
    return LINKS.has(address.protocol) ? address.href : undefined;
  } catch {
    return undefined;
  }
}

/** The text, if it is a bitmap, which the browser draws without running code. SVG may run code. */
export function safeImage(text: string): string | undefined {
  return text.startsWith("data:image/") && IMAGES.test(text) ? text : undefined;
}
