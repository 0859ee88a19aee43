/** @tanstack/virtual-core for Preact: only the rows that are on screen are in the page. */
import {
  elementScroll,
  observeElementOffset,
  observeElementRect,
  Virtualizer,
  type VirtualizerOptions,
} from "@tanstack/virtual-core";
import { useLayoutEffect, useReducer, useState } from "preact/hooks";

type Wanted = Omit<
  VirtualizerOptions<HTMLElement, HTMLElement>,
  "observeElementRect" | "observeElementOffset" | "scrollToFn" | "onChange"
>;

export type Rows = Virtualizer<HTMLElement, HTMLElement>;

export function useVirtualizer(wanted: Wanted): Rows {
  const [, render] = useReducer((turn: number) => turn + 1, 0);
  const options: VirtualizerOptions<HTMLElement, HTMLElement> = {
    observeElementRect,
    observeElementOffset,
    scrollToFn: elementScroll,
    ...wanted,
    onChange: () => render(undefined),
  };
  const [rows] = useState(() => new Virtualizer(options));
  rows.setOptions(options);
  useLayoutEffect(() => rows._didMount(), []);
  useLayoutEffect(() => rows._willUpdate());
  return rows;
}
