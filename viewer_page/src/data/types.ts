/** The JSON interface of the viewer, as docs/viewer-interface.md describes it. */

export type Ranges = [number, number][];

export type Status = "running" | "completed" | "failed" | "interrupted" | "unknown";

/** The run that a replay repeats. */
export interface ReplayOrigin {
  trajectory_id?: string | null;
  file?: string | null;
}

/** The run that a fork continues, and from where. */
export interface ForkOrigin extends ReplayOrigin {
  interaction_id?: string | null;
  step_number?: number | null;
}

/** The recorded call that gave the answer of a call that was not made. */
export interface ReplayedFrom {
  trajectory_id?: string;
  interaction_id?: string;
  by_hand?: boolean;
}

/** Other runs of the list that this one belongs with: the one that it continues or repeats, its forks and replays. */
export interface Relations {
  forked_from: string | null;
  replay_of: string | null;
  forks: { id: string; step_number: number | null }[];
  replays: string[];
  /** The runs that gave answers to calls of this one, by their trajectory ids. */
  sources: Record<string, string>;
}

export interface RunSummary {
  id: string;
  trajectory_id: string | null;
  forked_from: ForkOrigin | null;
  replay_of: ReplayOrigin | null;
  task: string | null;
  status: Status;
  success: boolean | null;
  model: string | null;
  provider: string | null;
  start_time: string | null;
  end_time: string | null;
  execution_time_seconds: number | null;
  steps: number | null;
  llm_calls: number | null;
  failed_llm_calls: number | null;
  replayed_llm_calls: number | null;
  tool_calls: number | null;
  failed_tool_calls: number | null;
  total_input_tokens: number | null;
  output_tokens: number | null;
  cached_input_tokens: number | null;
  cost: number | null;
  cost_estimated: boolean | null;
  calls_without_price: number | null;
  rewards: Record<string, number> | null;
  error: ErrorInfo | string | null;
  bytes: number | null;
  modified: string | null;
  /** The run of the list that this one continues or repeats. */
  origin: string | null;
}

/** Of each kind of fact, how many of the runs that match a search have each value. */
export type SearchCounts = Record<"status" | "success" | "model" | "tool" | "reward", [string, number][]>;

/** A step of a run in the table of several runs. `differs` is in what it differs from the first run's step. */
export interface TableCell {
  step?: number | null;
  interaction?: number | null;
  text: string | null;
  tools: { name: string; failed: boolean }[];
  error: string | null;
  differs: string[];
}

export interface RunTable {
  rows: (TableCell | null)[][];
}

/** What the server is still to read, and when to ask again. */
interface ListState {
  version: string;
  unread: number;
  /** How many runs the search has not read. */
  unsearched: number;
  without_costs: number;
  next_seconds: number;
}

/** Rows of the list. A row of an earlier version is null if its run is gone. */
export interface ChangedList extends ListState {
  changed: true;
  directory: string;
  /** All runs, and those that match the filters and the search. */
  total: number;
  count: number;
  from: number;
  runs: (RunSummary | null)[];
  statuses: [string, number][];
  models: [string, number][];
  counts: SearchCounts | null;
  prices: string | null;
  /** The first files that cannot be read, and how many there are. */
  unreadable: { id: string; error: string }[];
  unreadable_count: number;
}

export type RunList = ChangedList | (ListState & { changed: false });

/** Which rows of the list, and the version that the page has, or of which the rows are. */
export interface ListRange {
  from: number;
  to: number;
  since?: string;
  version?: string;
}

export interface ErrorInfo {
  type: string;
  message: string;
  status?: number | null;
}

export interface Reward {
  name: string;
  value: number;
  weight: number;
  step_number?: number | null;
  explanation?: string | null;
  timestamp?: string | null;
}

export interface RunHead {
  trajectory_id: string | null;
  task: string | null;
  status: Status;
  success: boolean | null;
  final_result: Part[] | null;
  error: ErrorInfo | null;
  provider: string | null;
  model: string | null;
  max_steps: number | null;
  start_time: string | null;
  end_time: string | null;
  execution_time_seconds: number | null;
  forked_from: ForkOrigin | null;
  replay_of: ReplayOrigin | null;
  metadata: Record<string, unknown>;
  annotations: Record<string, unknown>;
  rewards: Reward[];
  metrics: Record<string, number>;
  gaps: { timestamp: string | null; what: string; why: string }[];
}

export interface Usage {
  input_tokens?: number;
  output_tokens?: number;
  cache_creation_input_tokens?: number;
  cache_read_input_tokens?: number;
  reasoning_tokens?: number;
  cost?: number;
  extra?: Record<string, unknown>;
}

export type Change = [position: number, removed: number, inserted: Ranges];

export interface Prompt {
  known: boolean;
  count: number;
  characters: number;
  base: number | null;
  relation: "begins" | "extends" | "edits" | "rewrites" | "refers";
  changes: Change[];
  answers: number[];
  instructions: number;
}

export interface AttemptOutline {
  number: number;
  start_seconds: number | null;
  duration_seconds: number | null;
  status: number | null;
  error: boolean;
}

export interface Call {
  number: number;
  id: string;
  agent: string | null;
  step: number | null;
  timestamp: string | null;
  /** Whether a program asked this beside its conversation, such as for a title. */
  side_call: boolean;
  start_seconds: number | null;
  duration_seconds: number | null;
  time_to_first_token_seconds: number | null;
  api: string | null;
  provider: string | null;
  model: string | null;
  stream: boolean;
  complete: boolean;
  ended_by: string | null;
  /** Why it is not complete; null if it is, or if its error says why. */
  incomplete: string | null;
  /** Null if the call was made. If it was not, its usage, tokens and costs are null. */
  replayed_from: ReplayedFrom | null;
  error: ErrorInfo | null;
  attempts: AttemptOutline[];
  usage: Usage | null;
  prompt_tokens: number | null;
  completion_tokens: number | null;
  cost: number | null;
  cost_estimated?: boolean;
  finish_reason: string | null;
  excerpt: string | null;
  tool_calls: { call_id: string; name: string; argument: string | null }[];
  prompt: Prompt;
  tool_list: number | null;
  parameters: number | null;
}

export interface ToolOutline {
  call_id: string;
  name: string | null;
  success: boolean | null;
  answered?: boolean;
  /** Whether a recording gave the result, so that the tool did not run. */
  replayed?: boolean;
  unrequested?: boolean;
  start_seconds: number | null;
  duration_seconds: number | null;
  error: string | null;
  /** The command, the path, the query: its first argument on one line. */
  argument: string | null;
  excerpt: string | null;
  result_excerpt: string | null;
  sub_agents?: string[];
}

export interface StepOutline {
  number: number;
  step_number: number | null;
  timestamp: string | null;
  start_seconds: number | null;
  duration_seconds: number | null;
  state: string;
  derived: boolean;
  agent: string | null;
  interaction: number | null;
  interactions: number[];
  error: string | null;
  reflection: string | null;
  summary: string | null;
  tool_calls: ToolOutline[];
}

export interface Agent {
  key: string | null;
  name: string | null;
  parent: string | null;
}

export interface Tool {
  name: string;
  description?: string | null;
  parameters?: unknown;
  [more: string]: unknown;
}

export interface Outline {
  version: string;
  id: string;
  writable: boolean;
  /** What a server knows of other runs. */
  relations?: Relations;
  run: RunHead;
  counts: Counts;
  tool_lists: Tool[][];
  parameters: Record<string, unknown>[];
  agents: Agent[];
  interactions: Call[];
  steps: StepOutline[];
}

export interface Counts {
  interactions: number;
  steps: number;
  messages: number;
  tool_lists: number;
  parameters: number;
  items: number;
}

/** The answer of `since`: a whole outline if `reset`, else the entries that changed. */
export interface Changes extends Omit<Outline, "id"> {
  id?: string;
  reset: boolean;
}

interface Cut {
  cut?: boolean;
  characters?: number;
}

export type Part =
  | ({ type: "text"; text: string } & Cut)
  | ({ type: "reasoning"; text: string } & Cut)
  | ({
      type: "tool_call";
      call_id: string;
      name: string;
      arguments?: unknown;
      call_id_made_up?: boolean;
      text?: string;
    } & Cut)
  | ({ type: "image"; media_type?: string | null; data?: string; url?: string } & Cut)
  | ({ type: "json"; value?: unknown; kind?: string | null; text?: string } & Cut);

export interface Message {
  number: number;
  role: string;
  characters: number;
  parts: Part[];
  call_id?: string | null;
  name?: string | null;
  is_error?: boolean;
}

export interface Response {
  id: string | null;
  model: string | null;
  finish_reason: string | null;
  parts: Part[];
  choices?: { index: number; finish_reason: string | null; parts: Part[]; extra?: Part | null }[];
  usage: Usage | null;
  extra?: Part | null;
  given?: Part | null;
}

export interface Attempt {
  number: number;
  timestamp: string | null;
  status?: number | null;
  duration_seconds?: number | null;
  /** Since the attempt before had ended. */
  pause_seconds?: number | null;
  error?: ErrorInfo | null;
  headers?: Record<string, string> | null;
  inferred?: boolean;
}

export interface Answer {
  number: number;
  response: Response | null;
  error: ErrorInfo | null;
  attempts: Attempt[];
  prompt?: Ranges;
}

export interface Raw {
  number: number;
  method: string | null;
  url: string | null;
  request: { body: unknown; items?: Record<string, Ranges | number> } | null;
  response: unknown;
  stream: { events: { seconds: number | null; text: string }[]; characters: number } | null;
  /** What sending it again needs. */
  sending: { headers: Record<string, string>; key: { header: string; prefix: string; variable: string } | null } | null;
}

export interface Item {
  number: number;
  value: unknown;
}

export interface ToolDetail {
  call_id: string;
  name: string | null;
  arguments: Part | null;
  result: {
    success: boolean | null;
    parts: Part[];
    error: Part | null;
    sent: Part[] | null;
    duration_seconds: number | null;
  } | null;
  unrequested?: boolean;
}

export interface StepDetail {
  number: number;
  reflection: Part | null;
  error: Part | null;
  messages: Omit<Message, "number">[] | null;
  response: Response | null;
  tool_calls: ToolDetail[];
  extra: Part | null;
}

export type Difference = "prompt" | "model" | "tools" | "parameters" | "answer" | "tool_call" | "tool_result" | "missing";

/** A place in a run: numbers of its outline. */
export interface ComparedStep {
  step: number | null;
  interaction: number | null;
}

export interface Comparison {
  equal: boolean;
  parts_at: number | null;
  pairs: { a: ComparedStep | null; b: ComparedStep | null; differs: Difference[] }[];
}

/** One change of a value; `words` are those of two texts. */
export interface ValueChange {
  kind: "removed" | "added" | "changed";
  path: string;
  before?: unknown;
  after?: unknown;
  words?: { kind: "same" | "removed" | "added"; text: string }[];
}

export interface PairDifferences {
  pair: number;
  differences: { kind: Difference; changes: ValueChange[] }[];
}

/** Compressed JSON as base64, by name. */
export type Sections = Record<string, string>;

/** A run in one file; `sections` are those of RunData, and `texts`. */
export interface FileData {
  kind: "file";
  id: string;
  sections: Sections;
}

export interface RunData {
  run: Outline;
  messages: Message[];
  interactions: Answer[];
  steps: StepDetail[];
  items: Item[];
  raw: Record<string, Raw>;
}

export type PageData =
  | { kind: "refused"; error: string }
  | { kind: "server"; run: string | null; writable: boolean }
  | FileData
  | { kind: "comparison"; a: FileData; b: FileData; sections: Sections };
