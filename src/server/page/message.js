// How one message looks, while it grows and afterwards.
import {copyButton, el, icon, iconButton} from './dom.js';
import {renderInto} from './markdown.js';
import {apiKey} from './stream.js';
import {duration, timelineView} from './timeline.js';

const count = (n, word) => `${n.toLocaleString('en')} ${word}${n === 1 ? '' : 's'}`;
const rateText = (rate) => `${rate >= 100 ? Math.round(rate) : rate.toFixed(1)} tok/s`;

// [text, title] pairs; the numbers come from the server.
function statParts(stats) {
  const out = [];
  if (stats.rate > 0) out.push([rateText(stats.rate), 'Tokens per second while generating', 'rate']);
  if (stats.generated > 0) out.push([count(stats.generated, 'token'), 'Tokens of the answer', 'generated']);
  if (stats.first > 0) out.push([`first after ${duration(stats.first)}`, 'Time from sending to the first token', 'first']);
  if (stats.prompt > 0) {
    const cached = stats.cached ?? 0;
    const share = Math.round(100 * cached / stats.prompt);
    out.push([`${cached} of ${stats.prompt} prompt tokens cached`,
      `Prompt tokens that earlier requests had computed: ${share} %`, 'cached']);
  }
  return out;
}

function finishText(message) {
  if (message.stopped) return 'stopped';
  return message.finish === 'length' ? 'cut off at the token limit' : '';
}

// JSON was asked for: shown as such, also while it is not complete.
function asCode(text) {
  return `~~~~~~~~~json\n${text}`;
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

// `actions`: resend(text), regenerate(), goOn(), answerCalls(results), setKey(key).
export class MessageView {
  constructor(message, actions) {
    this.message = message;
    this.actions = actions;
    this.node = el('article', {class: `message ${message.role}`, 'aria-label': this.label()});
    this.build();
  }
  label() {
    return {user: 'You', assistant: 'Answer', tool: 'Tool result'}[this.message.role];
  }
  build() {
    const build = {user: () => this.buildUser(), assistant: () => this.buildAssistant(), tool: () => this.buildTool()};
    this.node.replaceChildren();
    build[this.message.role]();
  }

  buildUser() {
    const {content} = this.message;
    this.node.append(el('div', {class: 'bubble'}, content), el('div', {class: 'actions'},
      copyButton('Copy message', () => content), iconButton('pencil', 'Edit and send again', () => this.edit())));
  }
  edit() {
    const area = el('textarea', {'aria-label': 'Edit your message', rows: Math.min(12, this.message.content.split('\n').length + 1),
      value: this.message.content, on: {keydown: (event) => {
        if (event.key === 'Escape') {
          event.stopPropagation();
          this.build();
          this.node.querySelector('.actions button:last-child').focus();
        }
        if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
          event.preventDefault();
          submit();
        }
      }}});
    const submit = () => area.value.trim() && this.actions.resend(area.value);
    this.node.replaceChildren(el('div', {class: 'editor'}, area, el('div', {class: 'row'},
      el('span', {class: 'hint'}, 'The messages after it are replaced.'),
      el('button', {type: 'button', class: 'small', on: {click: () => this.build()}}, 'Cancel'),
      el('button', {type: 'button', class: 'small primary', on: {click: submit}}, 'Send again'))));
    area.focus();
    area.setSelectionRange(area.value.length, area.value.length);
  }

  buildTool() {
    this.node.append(el('details', {class: 'block'}, el('summary', {}, icon('tool'), 'Tool result'),
      el('pre', {tabindex: '0'}, pretty(this.message.content))));
  }

  buildAssistant() {
    this.thoughtsText = el('div', {class: 'markdown'});
    this.thoughtsLabel = el('span', {}, 'Thoughts');
    this.thoughts = el('details', {class: 'block thoughts', hidden: true},
      el('summary', {}, this.thoughtsLabel), this.thoughtsText);
    this.body = el('div', {class: 'markdown'});
    this.calls = el('div', {class: 'calls'});
    this.trouble = el('div', {});
    this.bar = el('progress', {max: 1, value: 0, 'aria-label': 'Prompt processing'});
    this.state = el('div', {class: 'state', hidden: true}, el('span', {class: 'dots', 'aria-hidden': 'true'},
      el('i'), el('i'), el('i')), this.stateText = el('span', {}), this.bar);
    this.stats = el('div', {class: 'stats'});
    this.buttons = el('div', {class: 'actions'});
    this.picture = el('div', {hidden: true});
    this.node.append(this.thoughts, this.body, this.calls, this.trouble, this.state,
      el('div', {class: 'foot'}, this.buttons, this.stats), this.picture);
  }

  // Brings an assistant message up to date. `run` while it streams, else null; `isLast` decides what can be done.
  update(run, isLast) {
    const {message} = this;
    if (message.role !== 'assistant') return;
    this.node.setAttribute('aria-busy', String(run !== null));
    this.node.classList.toggle('running', run !== null);
    this.showThoughts(run);
    renderInto(this.body, message.json && message.content ? asCode(message.content) : message.content);
    this.showCalls(run, isLast);
    this.showState(run);
    this.showStats(run);
    if (!run) this.showEnd(isLast);
  }
  showThoughts(run) {
    const {reasoning, content} = this.message;
    this.thoughts.hidden = !reasoning;
    if (!reasoning) return;
    this.thoughtsLabel.textContent = run && !content ? 'Thinking…' : 'Thoughts';
    renderInto(this.thoughtsText, reasoning);
  }
  showState(run) {
    this.state.hidden = !run || this.message.content !== '' && !run.progress;
    if (this.state.hidden) return;
    const p = run.progress;
    this.bar.hidden = !p;
    if (p) {
      this.bar.value = p.total > 0 ? p.processed / p.total : 0;
      this.stateText.textContent = `Reading the prompt: ${p.processed} of ${p.total} tokens` +
        (p.cache > 0 ? `, ${p.cache} from the cache` : '');
    } else {
      const {reasoning, tool_calls: calls} = this.message;
      this.stateText.textContent = reasoning ? 'Thinking' : calls ? 'Calling' : 'Waiting for the server';
    }
  }
  showStats(run) {
    const parts = statParts(this.message.stats ?? {});
    const end = run ? '' : finishText(this.message);
    if (end) parts.push([end, '', 'finish']);
    this.stats.replaceChildren(...parts.map(([text, title, name]) =>
      el('span', {title: title || null, 'data-stat': name, class: name === 'rate' ? 'rate' : null}, text)));
  }

  showCalls(run, isLast) {
    const calls = this.message.tool_calls ?? [];
    if (calls.length === 0) return this.calls.replaceChildren();
    this.callNodes ??= [];
    calls.forEach((call, i) => {
      if (!call) return;
      const node = this.callNodes[i] ??= el('section', {class: 'block call', 'aria-label': 'Tool call'},
        el('header', {}, icon('tool'), el('span', {}, 'Calls '), el('code', {class: 'name'})), el('pre', {tabindex: '0'}));
      node.querySelector('.name').textContent = call.function.name;
      node.querySelector('pre').textContent = run ? call.function.arguments : pretty(call.function.arguments);
      if (!node.isConnected) this.calls.append(node);
    });
    this.results?.remove();
    if (!run && isLast && !this.message.error) this.calls.append(this.results = this.resultForm(calls));
  }
  resultForm(calls) {
    const areas = calls.map((call) => el('textarea', {rows: 2, class: 'mono', 'aria-label': `Result of ${call.function.name}`,
      placeholder: `Result of ${call.function.name}`}));
    return el('form', {class: 'results', on: {submit: (event) => {
      event.preventDefault();
      this.actions.answerCalls(calls.map((call, i) => ({id: call.id, content: areas[i].value})));
    }}}, areas, el('div', {class: 'row'}, el('button', {class: 'small primary'}, 'Send results')));
  }

  showEnd(isLast) {
    const {message} = this;
    this.trouble.replaceChildren();
    if (message.error) this.trouble.append(this.errorBox(isLast));
    const timeline = message.timeline;
    if (this.view?.timeline !== timeline) {  // of an earlier run
      this.view?.remove();
      this.view = null;
      this.picture.hidden = true;
    }
    const chart = timeline?.tokens.length > 0 && iconButton('chart', 'Timeline of the run',
      () => this.togglePicture(chart), {'aria-expanded': String(!this.picture.hidden), class: 'icon-button chart-button'});
    this.buttons.replaceChildren(...[
      message.content && copyButton('Copy answer', () => message.content),
      isLast && message.content && finishText(message) && iconButton('play', 'Go on', () => this.actions.goOn()),
      isLast && iconButton('again', 'Answer again', () => this.actions.regenerate()),
      chart].filter(Boolean));
  }
  togglePicture(button) {
    this.picture.hidden = !this.picture.hidden;
    button.setAttribute('aria-expanded', String(!this.picture.hidden));
    this.view ??= timelineView(this.message.timeline);
    if (!this.view.isConnected) this.picture.append(this.view);
    if (this.picture.hidden) return;
    this.view.redraw();
    this.node.scrollIntoView({block: 'end'});
  }
  redraw() {
    this.view?.redraw();
  }

  errorBox(isLast) {
    const {error, status, retryAfter} = this.message;
    const details = [status ? `status ${status}` : '', retryAfter ? `free again in about ${retryAfter} s` : ''].filter(Boolean);
    const box = el('div', {class: 'error-box', role: 'alert'}, el('p', {}, error),
      details.length > 0 && el('p', {class: 'hint'}, details.join(', ')));
    if (!isLast) return box;
    if (status === 401) box.append(this.keyForm());
    else box.append(el('button', {type: 'button', class: 'small', on: {click: () => this.actions.regenerate()}}, 'Try again'));
    return box;
  }
  keyForm() {
    const input = el('input', {type: 'password', 'aria-label': 'API key', placeholder: 'API key', autocomplete: 'off',
      value: apiKey.get()});
    return el('form', {class: 'row', on: {submit: (event) => {
      event.preventDefault();
      this.actions.setKey(input.value.trim());
    }}}, input, el('button', {class: 'small primary'}, 'Use this key'));
  }
}
