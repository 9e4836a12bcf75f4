// Conversations and their runs: what is asked, what streams in, what is stored. Knows nothing about the document.
//
// Events: "open" another conversation; "messages" the list changed; "run" one began or ended; "update" the text of a
// message grew (detail: message).
import {requestFields} from './settings.js';
import * as store from './store.js';
import {streamChat} from './stream.js';
import {newTimeline} from './timeline.js';

const OPEN = 'tokamak.open';
const SAVE_MS = 2000;

function forServer(message) {
  const out = {role: message.role, content: message.content};
  if (message.tool_calls) out.tool_calls = message.tool_calls.filter(Boolean);
  if (message.tool_call_id) out.tool_call_id = message.tool_call_id;
  return out;
}

// Pieces of calls, by index, onto what is there.
function addCalls(message, pieces) {
  message.tool_calls ??= [];
  for (const piece of pieces) {
    const call = message.tool_calls[piece.index ?? 0] ??= {id: '', type: 'function', function: {name: '', arguments: ''}};
    if (piece.id) call.id = piece.id;
    if (piece.function?.name) call.function.name += piece.function.name;
    if (piece.function?.arguments) call.function.arguments += piece.function.arguments;
  }
}

// One answer on its way: events of the stream onto a message and its timeline.
class Run {
  constructor(message) {
    this.message = message;
    this.controller = new AbortController();
    this.start = performance.now();
    this.timeline = message.timeline = newTimeline();
    this.progress = null;
    this.promptMs = [];  // of each progress event, by the server's clock
  }
  ms() {
    return Math.round((performance.now() - this.start) * 10) / 10;
  }
  take(event) {
    const {message, timeline} = this;
    const now = this.ms();
    if (event.prompt_progress) {
      const p = this.progress = event.prompt_progress;
      timeline.progress.push([now, p.processed, p.cache, p.total]);
      this.promptMs.push(p.time_ms);
    }
    const choice = event.choices?.[0];
    const delta = choice?.delta ?? {};
    if (delta.reasoning_content) message.reasoning = (message.reasoning ?? '') + delta.reasoning_content;
    if (delta.content) message.content += delta.content;
    if (delta.tool_calls) addCalls(message, delta.tool_calls);
    if (delta.reasoning_content || delta.content || delta.tool_calls) {
      timeline.tokens.push(this.tokenTime(event, now));
      this.progress = null;
    }
    if (choice?.finish_reason) message.finish = choice.finish_reason;
    if (event.timings) this.takeTimings(event.timings);
    if (event.usage) {
      message.stats.prompt = event.usage.prompt_tokens;
      message.stats.generated = event.usage.completion_tokens;
      message.stats.cached = event.usage.prompt_tokens_details?.cached_tokens ?? 0;
    }
    timeline.end = now;
  }
  // Later tokens by the server's clock, so that the page's own work makes no gaps.
  tokenTime(event, now) {
    const [first] = this.timeline.tokens;
    if (!event.timings) return now;
    if (first === undefined) {
      this.alignPrompt(now - event.timings.prompt_ms);
      return now;
    }
    return Math.max(this.timeline.tokens.at(-1), Math.round((first + event.timings.predicted_ms) * 10) / 10);
  }
  // The same for the parts of the prompt, which ended with the first token.
  alignPrompt(start) {
    this.timeline.progress.forEach((row, i) => {
      row[0] = Math.max(0, Math.round((start + this.promptMs[i]) * 10) / 10);
    });
  }
  takeTimings(t) {
    const stats = this.message.stats;
    stats.cached = t.cache_n;
    stats.prompt = t.cache_n + t.prompt_n;
    stats.generated = t.predicted_n;
    stats.rate = t.predicted_n > 1 ? t.predicted_per_second : 0;
    stats.promptRate = t.prompt_per_second;
    stats.first = this.timeline.tokens[0] ?? this.ms();
  }
}

export class Chats extends EventTarget {
  constructor() {
    super();
    this.runs = new Map();  // by id of the conversation
    const last = sessionStorage.getItem(OPEN);
    this.current = (last && store.load(last)) || store.newConversation();
  }

  emit(type, detail) {
    this.dispatchEvent(new CustomEvent(type, {detail}));
  }
  run() {
    return this.runs.get(this.current.id);
  }

  open(id) {
    const running = this.runs.get(id);
    this.current = running?.conversation ?? store.load(id) ?? store.newConversation();
    sessionStorage.setItem(OPEN, this.current.id);
    this.emit('open');
  }
  openNew() {
    this.current = store.newConversation();
    sessionStorage.removeItem(OPEN);
    this.emit('open');
  }
  // Another tab wrote.
  reload() {
    const fresh = this.run() ? null : store.load(this.current.id);
    if (fresh && fresh.updated !== this.current.updated) this.open(fresh.id);
    else this.emit('run');
  }
  rename(id, title) {
    const conversation = id === this.current.id ? this.current : this.runs.get(id)?.conversation ?? store.load(id);
    conversation.title = title.trim().slice(0, 200);
    this.save(conversation, false);
  }
  remove(id) {
    this.runs.get(id)?.run.controller.abort();
    this.runs.delete(id);
    store.remove(id);
    if (id === this.current.id) this.openNew();
    else this.emit('run');
  }
  setSystem(text) {
    this.current.system = text;
    if (this.current.messages.length) this.save(this.current, false);
  }
  save(conversation, touch = true) {
    if (touch) conversation.updated = Date.now();
    const error = store.save(conversation);
    if (error) this.emit('trouble', error);
    this.emit('run');
  }

  send(text) {
    this.current.messages.push({role: 'user', content: text});
    this.answer();
  }
  // Takes `text` instead of the message at `index` and drops what followed.
  resend(index, text) {
    this.current.messages.splice(index, Infinity, {role: 'user', content: text});
    this.answer();
  }
  // Another answer to the last question.
  regenerate() {
    const {messages} = this.current;
    while (messages.at(-1)?.role === 'assistant') messages.pop();
    if (messages.length) this.answer();
  }
  // Goes on with the last answer, which was stopped or cut off.
  goOn() {
    const message = this.current.messages.at(-1);
    if (message?.role !== 'assistant' || !message.content) return;
    delete message.finish;
    this.answer(message);
  }
  answerCalls(results) {
    for (const {id, content} of results) this.current.messages.push({role: 'tool', content, tool_call_id: id});
    this.answer();
  }
  stop() {
    this.run()?.run.controller.abort();
  }

  request(conversation) {
    const sent = conversation.messages.filter((m) => m.role !== 'assistant' || m.content || m.tool_calls).map(forServer);
    if (conversation.system.trim()) sent.unshift({role: 'system', content: conversation.system});
    return {messages: sent, stream: true, stream_options: {include_usage: true}, timings_per_token: true,
      return_progress: true, ...requestFields()};
  }

  // Into a new message, or onto the end of the last one.
  async answer(last = null) {
    const conversation = this.current;
    this.stop();  // an answer on its way gives way to the new one
    sessionStorage.setItem(OPEN, conversation.id);
    const message = last ?? {role: 'assistant', content: ''};
    Object.assign(message, {stats: {}, stopped: true});  // until it has ended by itself
    const run = new Run(message);
    let body;
    try {
      body = {...this.request(conversation), continue_final_message: last ? true : undefined};
    } catch (error) {
      message.error = error.message;
    }
    if (body?.response_format) message.json = true;
    if (!last) conversation.messages.push(message);
    if (body) this.runs.set(conversation.id, {conversation, run});
    this.save(conversation);
    this.emit('messages');
    if (body) await this.stream(conversation, run, body);
  }

  async stream(conversation, run, body) {
    const {message} = run;
    let saved = performance.now();
    try {
      await streamChat(body, run.controller.signal, (event) => {
        run.take(event);
        this.emit('update', message);
        if (performance.now() - saved > SAVE_MS) {
          saved = performance.now();
          store.save(conversation);
        }
      });
      delete message.stopped;
    } catch (error) {
      if (error.name !== 'AbortError') {
        message.error = error.message;
        message.status = error.status;
        message.retryAfter = error.retryAfter;
        delete message.stopped;
      }
    }
    run.timeline.end = run.ms();
    const isKept = this.runs.get(conversation.id)?.run === run;
    if (isKept) {
      this.runs.delete(conversation.id);
      this.save(conversation);
    }
    this.emit('ended', {conversation, message});
  }
}
