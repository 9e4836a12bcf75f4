// The server's endpoints as the page uses them. The key is kept for this tab only.

const KEY = 'tokamak.key';

export const apiKey = {
  get: () => sessionStorage.getItem(KEY) ?? '',
  set: (key) => (key ? sessionStorage.setItem(KEY, key) : sessionStorage.removeItem(KEY)),
};

// What the server said, in its words.
export class ServerError extends Error {
  constructor(message, {status = 0, type = '', param = '', retryAfter = 0} = {}) {
    super(message);
    Object.assign(this, {status, type, param, retryAfter});
  }
}

function fromJson(json, status, headers) {
  const error = json?.error ?? {};
  return new ServerError(error.message ?? `The server answered with status ${status}.`, {
    status, type: error.type ?? '', param: error.param ?? '', retryAfter: Number(headers?.get('retry-after') ?? 0)});
}

async function send(path, options = {}) {
  const headers = new Headers(options.headers);
  if (apiKey.get()) headers.set('Authorization', `Bearer ${apiKey.get()}`);
  let response;
  try {
    response = await fetch(path, {...options, headers, cache: 'no-store'});
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new ServerError('The server cannot be reached.');
  }
  if (!response.ok) throw fromJson(await response.json().catch(() => null), response.status, response.headers);
  return response;
}

export const getJson = async (path) => (await send(path)).json();
export const getText = async (path) => (await send(path)).text();

// Calls `onEvent` with the JSON of each event until the stream ends. Errors inside the stream are thrown.
export async function streamChat(body, signal, onEvent) {
  const response = await send('v1/chat/completions', {
    method: 'POST', body: JSON.stringify(body), headers: {'Content-Type': 'application/json'}, signal});
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  let done = false;
  while (!done) {
    const piece = await reader.read();
    if (piece.done) break;
    const lines = (rest + piece.value).split(/\r?\n/);
    rest = lines.pop();
    for (const line of lines) {
      if (!line.startsWith('data:')) continue;  // a comment that keeps the connection open, or the end of an event
      const data = line.slice(5).trim();
      if (data === '[DONE]') {
        done = true;
        break;
      }
      const json = JSON.parse(data);
      if (json.error) throw fromJson(json, response.status);
      onEvent(json);
    }
  }
  if (!done) throw new ServerError('The connection ended before the answer was complete.');
}

// "tokamak_kv_tokens 12" -> {kv_tokens: 12}
export function parseMetrics(text) {
  const values = {};
  for (const line of text.split('\n')) {
    const match = /^tokamak_([a-z_]+)\s+(\S+)$/.exec(line);
    if (match) values[match[1]] = Number(match[2]);
  }
  return values;
}
