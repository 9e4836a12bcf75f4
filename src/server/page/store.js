// Conversations in the browser's storage: one entry each, so that a change writes one only and tabs do not undo each
// other's work.
//
// Conversation: {id, title, system, created, updated, messages}
// Message: {role: 'user' | 'assistant' | 'tool', content, reasoning?, tool_calls?, tool_call_id?, stats?, timeline?,
//           error?, stopped?, json?}

const PREFIX = 'tokamak.chat.';
const ROLES = ['user', 'assistant', 'tool'];
const FORMAT = 'tokamak-conversations';

export function newConversation() {
  const now = Date.now();
  const random = crypto.getRandomValues(new Uint32Array(2));
  return {id: `${now.toString(36)}-${random[0].toString(36)}${random[1].toString(36)}`, title: '', system: '',
    created: now, updated: now, messages: []};
}

// The title that was given, or the beginning of the first message.
export function titleOf(conversation) {
  if (conversation.title) return conversation.title;
  const first = conversation.messages.find((message) => message.role === 'user')?.content ?? '';
  const line = first.trim().split('\n')[0];
  return line.length > 60 ? `${line.slice(0, 59)}…` : line || 'New conversation';
}

export function load(id) {
  try {
    return clean(JSON.parse(localStorage.getItem(PREFIX + id)));
  } catch {
    return null;
  }
}

// Newest first.
export function list() {
  const all = [];
  for (let i = 0; i < localStorage.length; i++) {
    const key = localStorage.key(i);
    const conversation = key.startsWith(PREFIX) ? load(key.slice(PREFIX.length)) : null;
    if (conversation) all.push(conversation);
  }
  return all.sort((a, b) => b.updated - a.updated);
}

// Error text, or '' when it is stored.
export function save(conversation) {
  try {
    localStorage.setItem(PREFIX + conversation.id, JSON.stringify(conversation));
    return '';
  } catch {
    return 'The browser has no room left for this conversation: export it, then delete old ones.';
  }
}

export function remove(id) {
  localStorage.removeItem(PREFIX + id);
}

export const isConversationKey = (key) => key === null || key.startsWith(PREFIX);

const text = (value) => (typeof value === 'string' ? value : '');
const plain = (value) => (value !== null && typeof value === 'object' && !Array.isArray(value) ? value : undefined);

function cleanCall(call) {
  return {id: text(call?.id), type: 'function',
    function: {name: text(call?.function?.name), arguments: text(call?.function?.arguments)}};
}

function cleanTimeline(value) {
  const numbers = (list) => (Array.isArray(list) && list.every(Number.isFinite) ? list : []);
  if (!plain(value) || !Array.isArray(value.progress)) return undefined;
  return {progress: value.progress.map(numbers).filter((row) => row.length === 4), tokens: numbers(value.tokens),
    end: Number(value.end) || 0};
}

function cleanMessage(message) {
  const out = {role: message.role, content: text(message.content)};
  for (const name of ['reasoning', 'tool_call_id', 'error', 'finish'])
    if (text(message[name])) out[name] = message[name];
  if (Array.isArray(message.tool_calls) && message.tool_calls.length) out.tool_calls = message.tool_calls.map(cleanCall);
  if (message.stopped === true) out.stopped = true;
  if (message.json === true) out.json = true;
  const stats = plain(message.stats);
  if (stats) out.stats = Object.fromEntries(Object.entries(stats).filter(([, value]) => Number.isFinite(value)));
  const timeline = cleanTimeline(message.timeline);
  if (timeline) out.timeline = timeline;
  return out;
}

// What is stored or imported may come from anywhere: only known fields of the right kind are taken. Null: unusable.
function clean(value) {
  if (!plain(value) || !Array.isArray(value.messages)) return null;
  const fresh = newConversation();
  return {
    id: /^[a-z0-9-]{1,64}$/.test(value.id) ? value.id : fresh.id,
    title: text(value.title).slice(0, 200),
    system: text(value.system),
    created: Number(value.created) || fresh.created,
    updated: Number(value.updated) || fresh.updated,
    messages: value.messages.filter((message) => ROLES.includes(message?.role)).map(cleanMessage),
  };
}

export function exportText(conversations) {
  return JSON.stringify({format: FORMAT, version: 1, conversations}, null, 2);
}

// Adds the conversations of a file and gives how many. Those that exist already under the same id become copies.
// Throws with a sentence for the user.
export function importText(content) {
  let json;
  try {
    json = JSON.parse(content);
  } catch {
    throw new Error('This file is not JSON.');
  }
  const found = (Array.isArray(json?.conversations) ? json.conversations : [json]).map(clean).filter(Boolean);
  if (found.length === 0) throw new Error('This file holds no conversations.');
  for (const conversation of found) {
    if (localStorage.getItem(PREFIX + conversation.id) !== null) conversation.id = newConversation().id;
    const error = save(conversation);
    if (error) throw new Error(error);
  }
  return found.length;
}
