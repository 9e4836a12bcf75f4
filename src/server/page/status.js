// What the server is doing: a chip in the header, and a panel with everything.
import {byId, el} from './dom.js';
import {showDefaults} from './settings.js';
import {apiKey, getJson, getText, parseMetrics} from './stream.js';

const REST_MS = 10000, BUSY_MS = 1500;

function bytes(n) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  while (n >= 1024 && unit < units.length - 1) {
    n /= 1024;
    unit++;
  }
  return `${n >= 100 || unit === 0 ? Math.round(n) : n.toFixed(1)} ${units[unit]}`;
}
const whole = (n) => Math.round(n).toLocaleString('en');
function parameters(n) {
  return n >= 1e9 ? `${(n / 1e9).toFixed(1)} billion` : `${(n / 1e6).toFixed(0)} million`;
}

export class Status {
  // `isBusy()`: whether an answer of this page streams.
  constructor(isBusy) {
    Object.assign(this, {isBusy, model: null, props: null, slots: null, metrics: null, health: 'unknown', trouble: '',
      refusedKey: null});
    byId('status').addEventListener('click', () => this.open());
    byId('server').addEventListener('close', () => clearTimeout(this.timer) ?? this.poll());
    document.addEventListener('visibilitychange', () => document.hidden || this.poll());
    this.poll();
  }
  open() {
    byId('server').showModal();
    this.poll();
  }

  async poll() {
    clearTimeout(this.timer);
    if (document.hidden) return;
    await this.ask();
    this.show();
    const often = this.isBusy() || byId('server').open;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.poll(), often ? BUSY_MS : REST_MS);
  }
  async ask() {
    try {
      await getJson('health');
      this.health = 'ok';
      this.trouble = '';
      this.model ??= (await getJson('v1/models')).data[0];
    } catch (error) {
      this.health = error.status ? 'unwell' : 'away';
      this.trouble = error.message;
      this.model = error.status ? this.model : null;  // another one may come back
      if (!error.status) this.props = null;
      return;
    }
    if (this.refusedKey === apiKey.get()) {
      this.health = 'key';
      return;
    }
    try {
      const first = this.props === null;
      this.props ??= await getJson('props');
      if (first) showDefaults(this.props.default_generation_settings?.params);
      [this.slots, this.metrics] = [await getJson('slots'), parseMetrics(await getText('metrics'))];
    } catch (error) {
      this.slots = this.metrics = null;
      this.trouble = error.message;
      this.refusedKey = error.status === 401 ? apiKey.get() : null;
      if (error.status === 401) this.health = 'key';
    }
  }

  summary() {
    if (this.health === 'away') return 'not reachable';
    if (this.health === 'unwell') return this.trouble;
    if (this.health === 'key') return 'needs an API key';
    if (!this.metrics) return 'ready';
    const {requests_processing: running, requests_deferred: waiting} = this.metrics;
    if (running === 0 && waiting === 0) return 'ready';
    const total = this.props?.total_slots;
    return `${running}${total ? ` of ${total}` : ''} running${waiting ? `, ${waiting} waiting` : ''}`;
  }
  show() {
    const name = this.model?.id ?? 'Tokamak';
    byId('status').dataset.health = this.health;
    byId('status-model').textContent = name;
    byId('status-text').textContent = this.summary();
    byId('status').setAttribute('aria-label', `Server: ${name}, ${this.summary()}. Show details`);
    for (const node of document.querySelectorAll('.model-name')) node.textContent = name;
    if (byId('server').open) byId('server-body').replaceChildren(...this.panel());
  }

  panel() {
    const out = [el('p', {class: `health ${this.health}`}, this.health === 'ok' ? 'Takes requests.' : this.trouble || this.summary())];
    if (this.model) out.push(this.modelPart());
    if (this.slots) out.push(this.slotPart());
    if (this.metrics) out.push(this.countPart());
    if (this.props?.memory) out.push(this.memoryPart());
    return out;
  }
  modelPart() {
    const {meta = {}, id} = this.model;
    const rows = [['name', id], ['context', meta.n_ctx && `${whole(meta.n_ctx)} tokens (trained for ${whole(meta.n_ctx_train)})`],
      ['parameters', meta.n_params && parameters(meta.n_params)], ['file', meta.size && bytes(meta.size)]];
    return part('Model', rows);
  }
  slotPart() {
    const total = this.props?.total_slots;
    const rows = this.slots.filter((slot) => slot.is_processing).map((slot) => el('tr', {}, [slot.state, whole(slot.n_prompt), whole(slot.n_cached),
      whole(slot.n_generated), `${slot.age_seconds.toFixed(1)} s`].map((value) => el('td', {}, value))));
    const title = `Requests now${total ? ` (${total} can run at once)` : ''}`;
    if (rows.length === 0) return el('section', {}, el('h3', {}, title), el('p', {class: 'hint'}, 'None.'));
    return el('section', {}, el('h3', {}, title), el('div', {class: 'table', tabindex: '0'}, el('table', {},
      el('thead', {}, el('tr', {}, ['state', 'prompt', 'cached', 'answer', 'age'].map((name) => el('th', {}, name)))),
      el('tbody', {}, rows))));
  }
  countPart() {
    const m = this.metrics;
    const rate = m.tokens_predicted_seconds_total > 0 ? m.tokens_predicted_total / m.tokens_predicted_seconds_total : 0;
    const prompt = m.prompt_tokens_total + m.prompt_tokens_cached_total;
    return part('Since the start', [
      ['requests', `${whole(m.requests_total)}, ${whole(m.requests_failed_total)} failed, ${whole(m.requests_refused_total)} refused`],
      ['prompt tokens', prompt > 0 && `${whole(prompt)}, ${Math.round(100 * m.prompt_tokens_cached_total / prompt)} % from the cache`],
      ['answer tokens', `${whole(m.tokens_predicted_total)}${rate ? `, ${rate.toFixed(1)} a second` : ''}`],
      ['KV cache', `${whole(m.kv_tokens)} tokens, old prompts ${bytes(m.cache_bytes)}`],
      ['longest token gap', `${m.token_gap_max_milliseconds.toFixed(0)} ms`]]);
  }
  memoryPart() {
    return part('Memory', this.props.memory.map(({what, bytes: n}) => [what, bytes(n)]));
  }
}

function part(title, rows) {
  return el('section', {}, el('h3', {}, title), el('dl', {}, rows.filter(([, value]) => value)
    .map(([name, value]) => [el('dt', {}, name), el('dd', {}, value)])));
}
