// Builds the page: one file with all of its code and styles, trace_recorder/viewer/page/viewer.html, and next to it the
// licences of the libraries in it. The same sources and the same lock file give the same bytes.
import { build } from "esbuild";
import { readFileSync, mkdirSync, writeFileSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const target = process.argv[2] ?? join(here, "..", "trace_recorder", "viewer", "page");

async function bundle(entry) {
  const built = await build({
    absWorkingDir: here,
    entryPoints: [entry],
    bundle: true,
    minify: true,
    write: false,
    metafile: true,
    format: "esm",
    target: ["es2022"],
    charset: "ascii",
    legalComments: "none",
    jsx: "automatic",
    jsxImportSource: "preact",
    alias: { react: "preact/compat", "react-dom": "preact/compat" },
    define: { "process.env.NODE_ENV": '"production"' },
  });
  return { text: built.outputFiles[0].text.trim(), inputs: Object.keys(built.metafile.inputs) };
}

/** Code inside a page must not end its element. `\x3c` is a `<` in texts and in regular expressions, with every flag. */
function inScript(code) {
  return code.replaceAll(/<(?=\/script|!--)/gi, "\\x3c");
}

function page(code, styles) {
  return readFileSync(join(here, "src", "page.html"), "utf8")
    .replace("/* STYLES */", () => styles)
    .replace("/* CODE */", () => inScript(code));
}

function licences(inputs) {
  const packages = new Set(inputs.map((path) => /^node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1]).filter(Boolean));
  const texts = [...packages].sort().map((name) => {
    const folder = join(here, "node_modules", name);
    const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    const file = readdirSync(folder).sort().find((one) => /^licen[sc]e/i.test(one));
    const text = file ? readFileSync(join(folder, file), "utf8").trim() : `Licence: ${license}`;
    return `${name} ${version}\n\n${text}`;
  });
  return `viewer.html contains these libraries.\n\n${texts.join(`\n\n${"-".repeat(80)}\n\n`)}\n`;
}

const code = await bundle("src/main.tsx");
const styles = await bundle("src/style/page.css");
mkdirSync(target, { recursive: true });
writeFileSync(join(target, "viewer.html"), page(code.text, styles.text));
writeFileSync(join(target, "LICENSES.txt"), licences(code.inputs));
