/**
 * Markdown as elements. The text is parsed to a syntax tree, and each node of the tree becomes an element of the page. HTML is
 * shown as text. Links lead only to http, https and mailto. Images of other sites are never loaded.
 */
import type { Definition, Nodes, PhrasingContent, RootContent, Table } from "mdast";
import { fromMarkdown } from "mdast-util-from-markdown";
import { gfmFromMarkdown } from "mdast-util-gfm";
import { gfm } from "micromark-extension-gfm";
import type { ComponentChildren, VNode } from "preact";
import { Fragment } from "preact";
import { useMemo } from "preact/hooks";
import { Code } from "./code";
import { safeAddress } from "./safe_address";

type Definitions = Map<string, Definition>;

const HEADINGS = ["h3", "h4", "h5", "h6", "h6", "h6"] as const;

export function Markdown({ text }: { text: string }) {
  const shown = useMemo(() => render(text), [text]);
  return <div class="markdown">{shown}</div>;
}

function render(text: string): ComponentChildren {
  const tree = fromMarkdown(text, { extensions: [gfm()], mdastExtensions: [gfmFromMarkdown()] });
  const definitions: Definitions = new Map();
  for (const node of tree.children) if (node.type === "definition") definitions.set(node.identifier, node);
  return all(tree.children, definitions);
}

function all(nodes: (RootContent | PhrasingContent)[], definitions: Definitions): ComponentChildren {
  return nodes.map((node, at) => <Fragment key={at}>{element(node, definitions)}</Fragment>);
}

function element(node: Nodes, definitions: Definitions): VNode | string | null {
  const inside = () => ("children" in node ? all(node.children as RootContent[], definitions) : null);
  switch (node.type) {
    case "text":
      return node.value;
    case "paragraph":
      return <p>{inside()}</p>;
    case "heading": {
      const Heading = HEADINGS[node.depth - 1] ?? "h6";
      return <Heading>{inside()}</Heading>;
    }
    case "strong":
      return <strong>{inside()}</strong>;
    case "emphasis":
      return <em>{inside()}</em>;
    case "delete":
      return <del>{inside()}</del>;
    case "inlineCode":
      return <code>{node.value}</code>;
    case "code":
      return <Code text={node.value} language={node.lang ?? undefined} />;
    case "blockquote":
      return <blockquote>{inside()}</blockquote>;
    case "list":
      return node.ordered ? <ol start={node.start ?? 1}>{inside()}</ol> : <ul>{inside()}</ul>;
    case "listItem":
      return (
        <li>
          {node.checked != null && (node.checked ? "☑ " : "☐ ")}
          {inside()}
        </li>
      );
    case "break":
      return <br />;
    case "thematicBreak":
      return <hr />;
    case "table":
      return table(node, definitions);
    case "link":
      return <Link url={node.url}>{inside()}</Link>;
    case "linkReference": {
      const definition = definitions.get(node.identifier);
      return definition ? <Link url={definition.url}>{inside()}</Link> : <span>[{inside()}]</span>;
    }
    case "image":
      return <ImageAddress url={node.url} alt={node.alt} />;
    case "imageReference":
      return <ImageAddress url={definitions.get(node.identifier)?.url ?? ""} alt={node.alt} />;
    case "html":
      return <span class="source">{node.value}</span>;
    case "footnoteReference":
      return <sup>[{node.identifier}]</sup>;
    case "footnoteDefinition":
      return (
        <div class="footnote">
          [{node.identifier}] {inside()}
        </div>
      );
    default:
      return null;
  }
}

function table(node: Table, definitions: Definitions): VNode {
  const [head, ...rows] = node.children;
  const align = (at: number) => ({ textAlign: node.align?.[at] ?? "left" });
  return (
    <div class="table" role="region" aria-label="table" tabIndex={0}>
      <table>
        <thead>
          <tr>
            {head?.children.map((cell, at) => (
              <th key={at} style={align(at)}>
                {all(cell.children, definitions)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, number) => (
            <tr key={number}>
              {row.children.map((cell, at) => (
                <td key={at} style={align(at)}>
                  {all(cell.children, definitions)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Link({ url, children }: { url: string; children: ComponentChildren }) {
  const address = safeAddress(url);
  if (!address) {
    return (
      <span class="source">
        {children} ({url})
      </span>
    );
  }
  return (
    <a href={address} target="_blank" rel="noopener noreferrer nofollow" title={url}>
      {children}
    </a>
  );
}

/** The address of an image in the text. The page fetches nothing from other sites. */
function ImageAddress({ url, alt }: { url: string; alt?: string | null | undefined }) {
  return (
    <Link url={url}>
      image{alt ? `: ${alt}` : ""}
      {url.startsWith("data:") ? " (data)" : ""}
    </Link>
  );
}
