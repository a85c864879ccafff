// Load on servers of the Open Inference Protocol (KServe, version 2), for k6 (AGPL; not part of
// slicewright), written by `slicewright load --export k6`: tensors of zeros.
import exec from 'k6/execution';
import http from 'k6/http';
import { Counter, Trend } from 'k6/metrics';

const load = JSON.parse(open(__ENV.SLICEWRIGHT_LOAD));
export const options = load.options;

const latency = new Trend('latency', true);
const answered = new Counter('answered');
const failed = new Counter('failed');

const path = `/v2/models/${encodeURIComponent(load.model)}`;
const headers = {};
if (__ENV.SLICEWRIGHT_API_KEY) headers.Authorization = `Bearer ${__ENV.SLICEWRIGHT_API_KEY}`;

const BYTES = {
  BOOL: 1, UINT8: 1, UINT16: 2, UINT32: 4, UINT64: 8, INT8: 1, INT16: 2, INT32: 4, INT64: 8,
  FP16: 2, BF16: 2, FP32: 4, FP64: 8,
  // A text is its length in four bytes, and here nothing.
  BYTES: 4,
};

// The inputs that the model asks for, with 1 wherever it takes any size.
export function setup() {
  if (load.body) return null;
  const answer = http.get(`${load.targets[0].url}${path}`, { headers, timeout: '60s' });
  if (answer.status !== 200) {
    const said = answer.body || answer.error;
    throw new Error(`${load.targets[0].url}${path}: HTTP ${answer.status} ${said}`);
  }
  let size = 0;
  const inputs = answer.json('inputs').map(({ name, datatype, shape }) => {
    const sizes = shape.map((n) => (n < 0 ? 1 : n));
    const bytes = sizes.reduce((a, b) => a * b, 1) * BYTES[datatype];
    size += bytes;
    return { name, datatype, shape: sizes, parameters: { binary_data_size: bytes } };
  });
  return { inputs, size };
}

let request = null;
// Whether this user has said why a request failed: a server that fails fails often.
let logged = false;

// JSON, then the tensors' bytes: the protocol's extension for binary tensor data.
function made(model) {
  if (load.body) {
    return {
      body: JSON.stringify(load.body),
      headers: { ...headers, 'Content-Type': 'application/json' },
    };
  }
  const text = JSON.stringify({ inputs: model.inputs });
  const body = new Uint8Array(text.length + model.size);
  for (let i = 0; i < text.length; i += 1) body[i] = text.charCodeAt(i);
  return {
    body: body.buffer,
    headers: {
      ...headers,
      'Content-Type': 'application/octet-stream',
      'Inference-Header-Content-Length': `${text.length}`,
    },
  };
}

export function load_(model) {
  request = request || made(model);
  const target = load.targets[exec.scenario.iterationInTest % load.targets.length];
  const tags = { target: target.tag };
  const answer = http.post(`${target.url}${path}/infer`, request.body, {
    headers: request.headers,
    timeout: '300s',
  });
  if (answer.status === 200) {
    answered.add(1, tags);
    latency.add(answer.timings.duration, tags);
    return;
  }
  failed.add(1, tags);
  if (!logged) console.error(`HTTP ${answer.status}: ${answer.error || answer.body}`.slice(0, 300));
  logged = true;
}
