/** The raw request, response and stream of a call, loaded when a tab needs them. */
import { useEffect, useState } from "preact/hooks";
import { wholeRequest } from "../data/raw";
import type { RunStore } from "../data/run_store";
import type { Call, Raw } from "../data/types";

export interface RawCall {
  raw: Raw;
  request: unknown;
}

export function loadRaw(store: RunStore, call: Call): Promise<RawCall> {
  return store.source.raw(store.id, call.number).then(async (raw) => ({
    raw,
    request: await wholeRequest(store.source, store.id, raw),
  }));
}

export function useRaw(store: RunStore, call: Call): { loaded: RawCall | null; error: string | null } {
  const [state, setState] = useState<{ loaded: RawCall | null; error: string | null }>({ loaded: null, error: null });
  useEffect(() => {
    let wanted = true;
    setState({ loaded: null, error: null });
    loadRaw(store, call).then(
      (loaded) => wanted && setState({ loaded, error: null }),
      (failure: unknown) => wanted && setState({ loaded: null, error: failure instanceof Error ? failure.message : String(failure) }),
    );
    return () => {
      wanted = false;
    };
  }, [store, call.number, call.complete]);
  return state;
}
