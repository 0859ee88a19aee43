export function CompareView(_: { source: unknown; a: string; b: string }) {
  return <main>compare</main>;
}
