/** The current width of an element. */
import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

export function useWidth<T extends Element>(): [RefObject<T | null>, number] {
  const at = useRef<T>(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    if (!at.current) return;
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry?.contentRect.width ?? 0)));
    observer.observe(at.current);
    return () => observer.disconnect();
  }, []);
  return [at, width];
}
