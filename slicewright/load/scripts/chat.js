// Load on servers with OpenAI's chat completions, for k6 (AGPL; not part of slicewright),
// written by `slicewright load --export k6`. k6 hands a stream over when it has ended, so it
// measures no first token; slicewright's own engine does.
import exec from 'k6/execution';
import http from 'k6/http';
import { Counter, Trend } from 'k6/metrics';

const load = JSON.parse(open(__ENV.SLICEWRIGHT_LOAD));
export const options = load.options;

const latency = new Trend('latency', true);
const requestTokens = new Trend('request_tokens');
const tokens = new Counter('tokens');
const answered = new Counter('answered');
const failed = new Counter('failed');

const headers = { 'Content-Type': 'application/json' };
if (__ENV.SLICEWRIGHT_API_KEY) headers.Authorization = `Bearer ${__ENV.SLICEWRIGHT_API_KEY}`;

function ask(body) {
  const target = load.targets[exec.scenario.iterationInTest % load.targets.length];
  const answer = http.post(`${target.url}/v1/chat/completions`, JSON.stringify(body), {
    headers,
    timeout: '300s',
  });
  return { answer, tags: { target: target.tag } };
}

let logged = false;

// Why, once for each user: a server that fails fails often.
function fail(answer, tags) {
  failed.add(1, tags);
  if (!logged) console.error(`HTTP ${answer.status}: ${answer.error || answer.body}`.slice(0, 300));
  logged = true;
}

// Each asks something else from its first word on, so that no server answers from its prefix cache.
function message() {
  const begins = `${exec.scenario.name} ${exec.scenario.iterationInTest}`;
  return {
    model: load.model,
    messages: [{ role: 'user', content: `${begins}: tell a story about a river.` }],
    max_tokens: load.tokens,
    stream: true,
    stream_options: { include_usage: true },
  };
}

// What the last chunk says; of servers that say nothing, as many as there are chunks with a choice.
function counted(text) {
  let chunks = 0;
  let counted = null;
  for (const line of text.split('\n')) {
    if (!line.startsWith('data: {')) continue;
    const chunk = JSON.parse(line.slice(6));
    if (chunk.usage) counted = chunk.usage.completion_tokens;
    if (chunk.choices && chunk.choices.length > 0) chunks += 1;
  }
  return counted === null ? chunks : counted;
}

export function load_() {
  const asked = load.body || message();
  const { answer, tags } = ask(asked);
  if (answer.status !== 200) {
    fail(answer, tags);
    return;
  }
  const made = asked.stream ? counted(answer.body) : answer.json('usage.completion_tokens') || 0;
  answered.add(1, tags);
  tokens.add(made, tags);
  latency.add(answer.timings.duration, tags);
  requestTokens.add(made / (answer.timings.duration / 1000), tags);
}
