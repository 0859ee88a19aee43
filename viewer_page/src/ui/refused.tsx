/** The page for a browser without access: the reason, and how to get the right address. */
import { visible } from "../content/visible";

export function Refused({ error }: { error: string }) {
  return (
    <main class="message-page">
      <h1>This browser has no access to the viewer</h1>
      <p>It said: {visible(error)}</p>
      <h2>What to do</h2>
      <ol>
        <li>
          Look at the terminal in which <code>trace-recorder view</code> runs. It printed an address such as{" "}
          <code>http://127.0.0.1:8765/?token=…</code>
        </li>
        <li>Open the whole address, with the token, in this browser. The browser keeps the token until the viewer ends.</li>
        <li>
          If the viewer was started again, its token is a new one. If it no longer runs, start it: <code>trace-recorder view DIRECTORY</code>
        </li>
      </ol>
      <p class="muted">
        The browser keeps the token for 127.0.0.1. With localhost in its place, the address needs the token once more. The token keeps
        other users of this machine, and web pages, away from the runs.
      </p>
    </main>
  );
}
