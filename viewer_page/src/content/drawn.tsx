/** Keeps a failure of drawing inside one part: the part is then shown as its raw text, with a note. */
import type { ComponentChildren } from "preact";
import { useEffect, useErrorBoundary } from "preact/hooks";
import { LongText } from "./long_text";

interface Props {
  /** The value that is drawn. After a failure, another value is tried again. */
  of: unknown;
  text: () => string;
  children: ComponentChildren;
}

export function Drawn({ of, text, children }: Props) {
  const [failure, again] = useErrorBoundary((error: unknown) => console.error(error));
  useEffect(() => {
    if (failure) again();
  }, [of]);
  if (!failure) return <>{children}</>;
  const reason = failure instanceof Error ? failure.message : String(failure);
  return (
    <div class="undrawn">
      <p class="warn">This cannot be drawn ({reason}). Its text is:</p>
      <LongText text={text()} />
    </div>
  );
}
