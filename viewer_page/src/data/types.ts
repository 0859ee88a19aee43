/**
 * The members of the answers of the viewer's server. docs/viewer-interface.md has the addresses and the rules, and a test
 * compares these types with real answers. A member that is not known is null; a count that nobody stated is never 0.
 * Times are ISO 8601, durations are seconds, costs are US dollars.
 */

/** Numbers as ranges. Both ends are included: `[[0, 41], [44, 44]]`. */
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
  /** Whether a person wrote the answer. */
  by_hand?: boolean;
}

/**
 * The related runs of the list, by their ids: the run that this run continues or repeats, its parent, its forks, its
 * replays, and the other runs whose parent it is.
 */
export interface Relations {
  forked_from: string | null;
  replay_of: string | null;
  parent: string | null;
  forks: { id: string; step_number: number | null }[];
  replays: string[];
  children: string[];
  /** The runs that gave answers to calls of this one, by their trajectory ids. */
  sources: Record<string, string>;
}

/** A row of the list. Its figures are those of the newest document; a journal without a document has no figures. */
export interface RunSummary {
  /** The path of the run's file from the served directory. */
  id: string;
  trajectory_id: string | null;
  /** The trajectory id of the run that this fork continues, or in which the process of this run was started. */
  parent: string | null;
  /** The caller's name for all runs that belong together. */
  session: string | null;
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
  /** The calls that were made. */
  llm_calls: number | null;
  failed_llm_calls: number | null;
  replayed_llm_calls: number | null;
  tool_calls: number | null;
  failed_tool_calls: number | null;
  total_input_tokens: number | null;
  output_tokens: number | null;
  cached_input_tokens: number | null;
  /** The sum of the costs of the calls. Until the calls have been read, it has only the costs that providers stated. */
  cost: number | null;
  /** Whether a cost is an estimate by the table `prices` of the list. */
  cost_estimated: boolean | null;
  /** The number of calls with tokens whose cost is not in the sum. */
  calls_without_price: number | null;
  rewards: Record<string, number> | null;
  error: ErrorInfo | string | null;
  bytes: number | null;
  modified: string | null;
  /** The run of the list that this one continues or repeats, or else its parent. */
  origin: string | null;
  /** In the order of time: how deep the row is in the tree of runs that belong together. Otherwise 0. */
  depth: number;
}

/** For each kind of fact: how many of the matching runs have each value, the most frequent value first. */
export type SearchCounts = Record<"status" | "success" | "model" | "tool" | "reward", [string, number][]>;

/** The answer of `/api/find`: the ids of the matching runs, in the order of their paths. */
export interface Found {
  runs: string[];
  counts: SearchCounts;
}

/** A step in the table of several runs. `differs` has the kinds of differences from the first run's step. */
export interface TableCell {
  step?: number | null;
  interaction?: number | null;
  /** The beginning of the answer. */
  text: string | null;
  tools: { name: string; failed: boolean }[];
  error: string | null;
  differs: string[];
}

/** Each row has a cell for each run; null if a run has no such step. */
export interface RunTable {
  runs: TableRun[];
  rows: (TableCell | null)[][];
}

/** The head of a run's column in the table of several runs. */
export interface TableRun {
  models: string[];
  task: string | null;
  status: Status;
  success: boolean | null;
  cost: number | null;
  cost_estimated: boolean | null;
  calls_without_price: number;
  execution_time_seconds: number | null;
}

/** A value with its 95 % confidence interval. Both ends are null if there are too few values. */
export interface Estimate {
  value: number;
  low: number | null;
  high: number | null;
}

/** `list_tokens` is an estimate of the tokens that the tools of MCP servers take of each prompt. */
export type GroupFigure = "cost" | "tokens" | "seconds" | "calls" | "tool_calls" | "tool_errors" | "list_tokens";

/** The name of a group in each grouping, such as `{"model": "openai/gpt-4o"}`. Null for runs without a value. */
export type GroupKey = Record<string, string | null>;

/** A figure over the runs of a group that have it. */
export interface FigureSpread {
  runs: number;
  total: number;
  median: Estimate;
  low_quartile: number;
  high_quartile: number;
  least: number;
  most: number;
}

export interface RunGroup {
  key: GroupKey;
  runs: number;
  /** Runs whose success is known. */
  judged: number;
  succeeded: number;
  success: Estimate | null;
  /** Runs with an estimate in their costs. */
  estimated_costs: number;
  figures: Record<GroupFigure, FigureSpread | null>;
}

/** The tasks that a group and its reference both did. `better` counts the tasks with a higher share of successes. */
export interface TaskPairs {
  tasks: number;
  success: { tasks: number; better: number; worse: number; equal: number; difference: Estimate } | null;
  figures: Record<GroupFigure, { tasks: number; difference: Estimate } | null>;
}

/** A group less its reference: shares of successes, and medians. */
export interface GroupDifference {
  key: GroupKey;
  reference: GroupKey;
  success: Estimate | null;
  figures: Record<GroupFigure, Estimate | null>;
  pairs: TaskPairs | null;
}

/** Groups of the listed runs. There are at most 30 names of each grouping here; `count` is the number of all its names. */
export interface Groups {
  by: { by: string; rule: string; names: (string | null)[]; count: number }[];
  runs: number;
  /** Runs in no group: replays, and runs that are still being recorded. */
  replays: number;
  running: number;
  /** Forks among the runs. Their figures leave out the calls that their parents made. */
  forks: number;
  /** The name of the reference in the last grouping. */
  against: string | null;
  /** The tables of the estimates in the costs; null if there are none. */
  prices: string | null;
  groups: RunGroup[];
  differences: GroupDifference[];
  confidence: number;
  /** Runs that are still to be read, and runs that cannot be read. */
  unread: number;
  unreadable: number;
  next_seconds: number;
}

/** The version of the list, how many runs the server has still to read, and when to ask again. */
interface ListState {
  version: string;
  /** Runs that changed and were not read since. */
  unread: number;
  /** Runs that the search has not read. */
  unsearched: number;
  /** Runs whose calls have not been read for their costs. */
  without_costs: number;
  next_seconds: number;
}

/** Rows of the list. A row of an earlier version is null if its run is gone. */
export interface ChangedList extends ListState {
  changed: true;
  directory: string;
  /** All runs, and the runs that match the filters and the search. */
  total: number;
  count: number;
  /** The number of the first row here. Rows are counted from 0. */
  from: number;
  runs: (RunSummary | null)[];
  statuses: [string, number][];
  models: [string, number][];
  /** Null if the request has no search. */
  counts: SearchCounts | null;
  /** The name and version of the table of prices, if it is installed. */
  prices: string | null;
  /** The first files that cannot be read, and how many there are. */
  unreadable: { id: string; error: string }[];
  unreadable_count: number;
}

/** The answer if the list is that of the caller's version. */
interface UnchangedList extends ListState {
  changed: false;
  runs: [];
}

export type RunList = ChangedList | UnchangedList;

/** The requested rows of the list, and the version that the page has, or the version whose rows are requested. */
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

/** The facts of a run. */
export interface RunHead {
  trajectory_id: string | null;
  parent: string | null;
  session: string | null;
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
  /** The websockets to models, in the order in which they were opened. */
  websockets: Websocket[];
}

/** A websocket to a model. A member that the journal does not state is missing. */
export interface Websocket {
  connection_id: string;
  api?: string;
  provider?: string;
  model?: string;
  url?: string;
  timestamp?: string;
  /** The status of the handshake. */
  status?: number;
  /** Why there is no websocket. */
  error?: ErrorInfo;
  duration_seconds?: number;
  /** The code and the reason of the closing handshake. */
  code?: number;
  reason?: string;
  ended_by?: string;
  /** How many messages passed. */
  sent?: number;
  received?: number;
  /** Requests that only prepared the server. They are no calls. */
  warm_ups?: number;
}

/** Tokens as the provider states them. */
export interface Usage {
  input_tokens?: number;
  output_tokens?: number;
  cache_creation_input_tokens?: number;
  cache_read_input_tokens?: number;
  reasoning_tokens?: number;
  cost?: number;
  extra?: Record<string, unknown>;
}

/** At a position of the base: how many messages are removed, and the numbers of the messages that are inserted. */
export type Change = [position: number, removed: number, inserted: Ranges];

/** A prompt as its difference to an earlier prompt. docs/viewer-interface.md says how to make the list of it. */
export interface Prompt {
  /** False if the request cannot be restored from a damaged journal. Then `count` is 0. */
  known: boolean;
  /** The number of its messages, and the length of their texts. */
  count: number;
  characters: number;
  /** The number of the interaction whose prompt is changed. Null: the changes are applied to an empty list. */
  base: number | null;
  /**
   * What it is to the call that it continues. `begins`: it continues no call. `extends`: all messages are unchanged.
   * `edits`: messages were shortened, replaced, added or removed, and all answers are there. `rewrites`: answers are gone.
   * `refers`: the request names the call `base` and repeats no message, so the changes are applied to an empty list.
   */
  relation: "begins" | "extends" | "edits" | "rewrites" | "refers";
  changes: Change[];
  /** The inserted messages that repeat an answer of an earlier call: new in this prompt, but known to a reader. */
  answers: number[];
  /** How many messages at the beginning hold for this request alone, in dialects that do not repeat them. */
  instructions: number;
}

export interface AttemptOutline {
  number: number;
  start_seconds: number | null;
  duration_seconds: number | null;
  status: number | null;
  error: boolean;
}

/** An interaction in the outline. */
export interface Call {
  number: number;
  /** Its `interaction_id` in the journal. */
  id: string;
  /** The `key` of an agent. */
  agent: string | null;
  /** Whether the agent is not on file, but was inferred from the beginning of its prompt. */
  agent_inferred: boolean;
  /** The number of the step that shows this call. */
  step: number | null;
  timestamp: string | null;
  /** Whether a program asked this beside its conversation, such as for a title. */
  side_call: boolean;
  /** Whether the recorder inferred that the call belongs to this run, because no recorder was active in its context. */
  run_inferred: boolean;
  /** Since the start of the run. */
  start_seconds: number | null;
  /** The time of all attempts and of the pauses between them. Null if no end is on file. */
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
  /** Comparable between providers: all tokens that went in, cached ones too, and all that came out, reasoning too. */
  prompt_tokens: number | null;
  completion_tokens: number | null;
  cost: number | null;
  cost_estimated: boolean | null;
  /** What the cost leaves out, because the table of prices has no rate for it. Null if there is no cost. */
  without_rate: string[] | null;
  finish_reason: string | null;
  /** The first 200 characters of the answer's text on one line. */
  excerpt: string | null;
  tool_calls: { call_id: string; name: string; argument: string | null }[];
  prompt: Prompt;
  /** Numbers in the lists of the outline. */
  tool_list: number | null;
  parameters: number | null;
}

export interface ToolOutline {
  call_id: string;
  name: string | null;
  /** Null if nobody stated it. */
  success: boolean | null;
  /** Whether the call has a result. */
  answered?: boolean;
  /** Whether a recording gave the result, so that the tool did not run. */
  replayed?: boolean;
  /** Whether this is a result whose call is in no step. */
  unrequested?: boolean;
  /** When the tool ran. Null if its execution was not recorded. */
  start_seconds: number | null;
  duration_seconds: number | null;
  error: string | null;
  /** The first argument on one line: the command, the path, the query. After a short word follows the second argument. */
  argument: string | null;
  /** The first 200 characters of the arguments, and of the result. */
  excerpt: string | null;
  result_excerpt: string | null;
  /** The agents that were started inside the tool. */
  sub_agents?: string[];
}

export interface StepOutline {
  /** Its place in the list, which identifies it here. `step_number` is the agent's own number. */
  number: number;
  step_number: number | null;
  timestamp: string | null;
  start_seconds: number | null;
  duration_seconds: number | null;
  state: string;
  /** False if the agent recorded the step; true if it is derived from an interaction. */
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
  /** Null for the main agent. */
  key: string | null;
  /** The name of an inferred agent is that of the tool that started it, followed by "(inferred)". */
  name: string | null;
  /** The key of the agent that started it. */
  parent: string | null;
  /** Whether the agent is not on file, but was inferred from the beginning of its prompt. */
  inferred: boolean;
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
  /** Whether a reward would be accepted: the run has ended and has a journal, and the server may write. */
  writable: boolean;
  /** The related runs that the server knows. */
  relations?: Relations;
  run: RunHead;
  counts: Counts;
  tool_lists: Tool[][];
  parameters: Record<string, unknown>[];
  agents: Agent[];
  interactions: Call[];
  steps: StepOutline[];
}

/** How many there are of everything that has numbers. */
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

/** A long part is cut. Then `text` is the beginning of its text or of its JSON, and `characters` the whole length. */
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

/** A message. Its role is that of the request: system, developer, user, assistant, tool, … */
export interface Message {
  number: number;
  role: string;
  characters: number;
  parts: Part[];
  call_id?: string | null;
  name?: string | null;
  /** Whether a tool message states that its tool failed. */
  is_error?: boolean;
}

export interface Response {
  id: string | null;
  model: string | null;
  finish_reason: string | null;
  parts: Part[];
  /** Empty if there is only one choice. */
  choices?: { index: number; finish_reason: string | null; parts: Part[]; extra?: Part | null }[];
  usage: Usage | null;
  extra?: Part | null;
  /** How many milliseconds of a spoken answer the user heard before interrupting it. */
  audio_end_ms?: number;
  /** An answer that the agent recorded by hand in a form of its own. */
  given?: Part | null;
}

/** An attempt of a call. The first one has the number 0. */
export interface Attempt {
  number: number;
  timestamp: string | null;
  status?: number | null;
  duration_seconds?: number | null;
  /** Since the end of the attempt before. */
  pause_seconds?: number | null;
  error?: ErrorInfo | null;
  headers?: Record<string, string> | null;
  /** Whether the SDK did not state that this is a retry. */
  inferred?: boolean;
}

/** The answer and the attempts of an interaction. */
export interface Answer {
  number: number;
  response: Response | null;
  error: ErrorInfo | null;
  attempts: Attempt[];
  /** The whole prompt, only in the answer about one interaction. */
  prompt?: Ranges;
}

/** A request and its response as they went over the wire. */
export interface Raw {
  number: number;
  method: string | null;
  url: string | null;
  /**
   * The request: `body` is the JSON that was sent, or a text that was not JSON. Each member of `body` that `items` names is
   * replaced by the items of these numbers, or by the one item of this number.
   */
  request: { body: unknown; items?: Record<string, Ranges | number> } | null;
  /** The response as JSON; a stream is assembled. A text if it was not JSON. */
  response: unknown;
  /** The events of a stream, and when each was complete, in seconds since the request. */
  stream: { events: { seconds: number | null; text: string }[]; characters: number } | null;
  /**
   * What a command needs that sends the request again, because the request's headers are not on file. `key` names a variable
   * of the environment. It is null unless the address is a provider's own host, by HTTPS: an address may be hostile.
   */
  sending: { headers: Record<string, string>; key: { header: string; prefix: string; variable: string } | null } | null;
}

/** An element that raw requests refer to. */
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
    /** What the tool returned. */
    parts: Part[];
    error: Part | null;
    /** What the agent passed on to the model, if that is known and not the same. */
    sent: Part[] | null;
    duration_seconds: number | null;
    execution_id: string | number | null;
    /** The calls of MCP servers that the tool consists of, or that it made. Absent if there are none. */
    mcp?: ServerCall[];
  } | null;
  unrequested?: boolean;
}

/** A call of a tool at an MCP server. */
export interface ServerCall {
  /** The name in the client's configuration, or else the server's own. */
  server: string | null;
  version: string | null;
  /** The name of the tool at the server. */
  tool: string | null;
  /** How the model's call was found. It is "execution" if a tool of the agent made the call. Null if no model's call was found. */
  joined_by: "id" | "name" | "execution" | null;
  /** False if the server answered with an error or did not answer; null if the call was cancelled. */
  success: boolean | null;
  /** How often the server told its progress. */
  progress: number;
  duration_seconds: number | null;
  structured_content?: Part;
  /**
   * The request, and its answer if there is one, as they were sent. Empty if they are not on file. Only the answer about one
   * step has them, never cut.
   */
  messages?: unknown[];
}

export interface StepDetail {
  number: number;
  reflection: Part | null;
  error: Part | null;
  /** Messages and the answer of a step that the agent recorded with its own, and that no interaction has. */
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

/** The steps of two runs in the order of time, aligned. Ids and times make no difference. */
export interface Comparison {
  equal: boolean;
  /** The place in `pairs` of the first pair that differs. */
  parts_at: number | null;
  /** Figures of the two runs, as far as they are known. */
  a: Record<string, unknown>;
  b: Record<string, unknown>;
  /** `differs` is empty if the two are equal, and `["missing"]` if one run has no such step. */
  pairs: { a: ComparedStep | null; b: ComparedStep | null; differs: Difference[] }[];
}

/** One change of a value. Long texts are shortened around their changes. `words` compares two texts. */
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

/** By name: JSON, compressed by zlib, as base64. */
export type Sections = Record<string, string>;

/** A run in one file. Its `sections` are the members of RunData, and `texts`. */
export interface FileData {
  kind: "file";
  id: string;
  sections: Sections;
}

/** All answers about a run, from the first number to the last. Nothing is cut. */
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
