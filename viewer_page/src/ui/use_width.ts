/** The current width of an element. */
import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

export function useWidth<T extends Element>(): [RefObject<T | null>, number] {
  const elementRef = useRef<T>(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    if (!elementRef.current) return;
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry?.contentRect.width ?? 0)));
    observer.observe(elementRef.current);
    return () => observer.disconnect();
  }, []);
  return [elementRef, width];
}
