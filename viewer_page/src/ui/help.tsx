/** The keys of the views on the screen. */
import { Dialog, Key } from "./elements";
import { activeShortcuts, helpOpen } from "./shortcuts";

export function Help() {
  return (
    <Dialog title="Keys" close={() => (helpOpen.value = false)}>
      <dl class="keys">
        {activeShortcuts().map((one) => (
          <div key={one.keys.join()}>
            <dt>
              {one.keys.map((key) => (
                <Key key={key}>{key}</Key>
              ))}
            </dt>
            <dd>{one.label}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
