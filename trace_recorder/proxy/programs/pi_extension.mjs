// Directs providers of pi to the proxy of trace-recorder for one run: `-e pi_extension.mjs`. The variables that begin
// with TRACE_RECORDER_PI_ have the addresses, each with the name of its provider at the end.
const BEGINNING = "TRACE_RECORDER_PI_"

export default function (pi) {
  for (const [name, baseUrl] of Object.entries(process.env)) {
    if (name.startsWith(BEGINNING)) pi.registerProvider(name.slice(BEGINNING.length), { baseUrl })
  }
}
