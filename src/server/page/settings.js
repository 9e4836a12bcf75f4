// What goes with every request, kept in the browser: sampling, form of the answer, tools. An empty box sends nothing,
// so the server's own value holds; it is shown in the box.
import {byId, el} from './dom.js';
import {apiKey} from './stream.js';

const KEY = 'tokamak.settings';

const SAMPLING = [
  {name: 'temperature', label: 'Temperature', min: 0, max: 100, step: 0.05,
    help: 'Higher is more varied; 0 always takes the most probable token.'},
  {name: 'top_k', label: 'Top k', min: -1, max: 2147483647, step: 1,
    help: 'Choose among so many of the most probable tokens; 0 is all.'},
  {name: 'top_p', label: 'Top p', min: 0, max: 1, step: 0.01,
    help: 'Choose among the fewest tokens that together are this probable; 1 is all.'},
  {name: 'min_p', label: 'Min p', min: 0, max: 1, step: 0.01,
    help: 'Leave out tokens less probable than this fraction of the best; 0 is all.'},
  {name: 'repeat_penalty', label: 'Repeat penalty', min: 0.01, max: 100, step: 0.05,
    help: 'Above 1 makes recent tokens less likely; 1 is off.'},
  {name: 'seed', label: 'Seed', min: -1, max: 9007199254740991, step: 1,
    help: 'The same seed and settings give the same answer; −1 draws one.'},
  {name: 'max_tokens', label: 'Max tokens', min: -1, max: 2147483647, step: 1, default: 'n_predict',
    help: 'Longest answer; −1 goes on until the model or the context ends.'},
];

const FORMS = {
  none: {label: 'Free text'},
  json: {label: 'Any JSON object', help: 'The answer is one JSON object.'},
  schema: {label: 'JSON Schema', help: 'The answer is JSON that fits this schema.',
    example: '{\n  "type": "object",\n  "properties": {\n    "name": {"type": "string"},\n    "age": {"type": "integer"}\n  },\n' +
      '  "required": ["name", "age"]\n}'},
  grammar: {label: 'Grammar (GBNF)', help: 'The answer is a sentence of this grammar; it starts at root.',
    example: 'root ::= "yes" | "no"'},
  regex: {label: 'Regular expression', help: 'The whole answer matches this expression.', example: '[0-9]{4}-[0-9]{2}-[0-9]{2}'},
};

const TOOLS_EXAMPLE = '[{"type": "function", "function": {\n  "name": "weather",\n  "parameters": {"type": "object",\n' +
  '    "properties": {"city": {"type": "string"}}}}}]';

function read() {
  try {
    return JSON.parse(localStorage.getItem(KEY)) ?? {};
  } catch {
    return {};
  }
}

const stored = read();
export const settings = {
  sampling: {...stored.sampling},
  output: {kind: FORMS[stored.output?.kind] ? stored.output.kind : 'none', text: String(stored.output?.text ?? '')},
  tools: String(stored.tools ?? ''),
  toolChoice: String(stored.toolChoice ?? ''),
  thinking: String(stored.thinking ?? ''),
  theme: String(stored.theme ?? ''),
};

const listeners = [];
export function onSettings(listener) {
  listeners.push(listener);
}
export function saveSettings() {
  try {
    localStorage.setItem(KEY, JSON.stringify(settings));
  } catch {
    // Without room they hold until the page is closed.
  }
  for (const listener of listeners) listener();
}

function parse(text, what) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`${what} is not valid JSON: ${error.message}`);
  }
}

const OUTPUT_FIELDS = {
  none: () => ({}),
  json: () => ({response_format: {type: 'json_object'}}),
  schema: (text) => ({response_format: {type: 'json_schema',
    json_schema: {name: 'answer', schema: parse(text, 'The schema')}}}),
  grammar: (text) => ({grammar: text}),
  regex: (text) => ({regex: text}),
};

// The fields of a request. Throws with a sentence for the user.
export function requestFields() {
  const fields = {};
  for (const [name, value] of Object.entries(settings.sampling)) {
    if (value !== '' && Number.isFinite(Number(value))) fields[name] = Number(value);
  }
  Object.assign(fields, OUTPUT_FIELDS[settings.output.kind](settings.output.text));
  if (settings.tools.trim()) {
    fields.tools = parse(settings.tools, 'The list of tools');
    if (settings.toolChoice) fields.tool_choice = settings.toolChoice;
  }
  if (settings.thinking) fields.chat_template_kwargs = {enable_thinking: settings.thinking === 'on'};
  return fields;
}

// What differs from the server's own values, in words: shown beside the message box.
export function activeSettings() {
  const out = SAMPLING.filter(({name}) => (settings.sampling[name] ?? '') !== '')
    .map(({name, label}) => `${label} ${settings.sampling[name]}`);
  if (settings.output.kind !== 'none') out.push(FORMS[settings.output.kind].label);
  if (settings.tools.trim()) out.push('Tools');
  if (settings.thinking) out.push(`Thinking ${settings.thinking}`);
  return out;
}

function field(id, label, control, help, error) {
  control.id = id;
  control.setAttribute('aria-describedby', `${id}-help`);
  return el('div', {class: 'field'}, el('label', {for: id}, label), control,
    el('p', {class: 'help', id: `${id}-help`}, help), error);
}

function samplingField(row) {
  const error = el('p', {class: 'invalid', role: 'alert'});
  const input = el('input', {type: 'number', inputmode: 'decimal', min: row.min, max: row.max, step: 'any',
    'data-default': row.default ?? row.name, value: settings.sampling[row.name] ?? '', on: {input: () => {
      const value = input.value.trim();
      const number = Number(value);
      const bad = input.validity.badInput || value !== '' && (number < row.min || number > row.max ||
        row.step === 1 && !Number.isInteger(number));
      error.textContent = bad ? `${row.step === 1 ? 'A whole number' : 'A number'} from ${row.min} to ${row.max}.` : '';
      input.setAttribute('aria-invalid', String(bad));
      if (bad) return;
      if (value === '') delete settings.sampling[row.name];
      else settings.sampling[row.name] = value;
      saveSettings();
    }}});
  return field(`set-${row.name}`, row.label, input, row.help, error);
}

function outputSection() {
  const error = el('p', {class: 'invalid', role: 'alert'});
  const help = el('p', {class: 'help', id: 'set-output-help'});
  const box = el('textarea', {id: 'set-output-text', class: 'mono', rows: 9, spellcheck: 'false',
    'aria-label': 'Schema, grammar or expression', value: settings.output.text, on: {input: () => {
      settings.output.text = box.value;
      check();
      saveSettings();
    }}});
  const select = el('select', {id: 'set-output', 'aria-describedby': 'set-output-help', on: {change: () => {
    const old = FORMS[settings.output.kind].example;
    settings.output.kind = select.value;
    // An untouched example gives way to the next one.
    if (!box.value.trim() || box.value === old) settings.output.text = box.value = FORMS[select.value].example ?? '';
    check();
    saveSettings();
  }}}, Object.entries(FORMS).map(([kind, {label}]) => el('option', {value: kind}, label)));
  const check = () => {
    const form = FORMS[settings.output.kind];
    box.hidden = form.example === undefined;
    help.textContent = form.help ?? 'The model writes what it likes.';
    error.textContent = '';
    try {
      OUTPUT_FIELDS[settings.output.kind](settings.output.text);
    } catch (problem) {
      error.textContent = problem.message;
    }
  };
  select.value = settings.output.kind;
  check();
  return section('Form of the answer', el('div', {class: 'field'}, el('label', {for: 'set-output'}, 'Form'), select, help,
    box, error));
}

// A choice of [value, label] pairs for a setting.
function choiceBox(name, options) {
  const select = el('select', {on: {change: () => {
    settings[name] = select.value;
    saveSettings();
  }}}, options.map(([value, label]) => el('option', {value}, label)));
  select.value = settings[name];
  return select;
}

function toolsSection() {
  const error = el('p', {class: 'invalid', role: 'alert'});
  const box = el('textarea', {class: 'mono', rows: 5, spellcheck: 'false', placeholder: TOOLS_EXAMPLE,
    value: settings.tools, on: {input: () => {
      settings.tools = box.value;
      error.textContent = '';
      try {
        if (box.value.trim()) parse(box.value, 'The list of tools');
      } catch (problem) {
        error.textContent = problem.message;
      }
      saveSettings();
    }}});
  const choice = choiceBox('toolChoice', [['', 'The model decides'], ['required', 'It must call one'], ['none', 'It must not']]);
  const thinking = choiceBox('thinking', [['', 'As the model is used to'], ['on', 'On'], ['off', 'Off']]);
  return section('Tools and thoughts',
    field('set-tools', 'Tools (JSON list)', box, 'What the model may call. Its calls are shown; you type the results.', error),
    field('set-tool-choice', 'Tool choice', choice, 'Counts only when there are tools.'),
    field('set-thinking', 'Thinking', thinking, 'For models whose template can switch it (enable_thinking).'));
}

function keySection(onKey) {
  const input = el('input', {type: 'password', autocomplete: 'off', value: apiKey.get(), on: {change: () => {
    apiKey.set(input.value.trim());
    onKey();
  }}});
  return section('Access', field('set-key', 'API key', input, 'Kept for this tab only, until it is closed.'));
}

function section(title, ...content) {
  return el('fieldset', {}, el('legend', {}, title), content);
}

// Fills the dialog anew. `system` is {get, set} of the current conversation.
export function buildSettings(system, onKey) {
  const prompt = el('textarea', {rows: 3, value: system.get(), placeholder: 'You are a patient teacher of physics.',
    on: {input: () => system.set(prompt.value)}});
  const reset = el('button', {type: 'button', class: 'small', on: {click: () => {
    settings.sampling = {};
    for (const {name} of SAMPLING) byId(`set-${name}`).value = '';
    saveSettings();
  }}}, 'Use the server’s values');
  byId('settings-body').replaceChildren(
    section('Conversation', field('set-system', 'System prompt', prompt,
      'Tells the model who it is and what to mind. Belongs to this conversation.')),
    section('Sampling', el('div', {class: 'grid'}, SAMPLING.map(samplingField)), reset),
    outputSection(), toolsSection(), keySection(onKey));
}

// The server's values as placeholders.
export function showDefaults(params) {
  for (const input of document.querySelectorAll('[data-default]')) {
    const value = params?.[input.dataset.default];
    if (Number.isFinite(value)) input.placeholder = String(Math.round(value * 1e6) / 1e6);
  }
}
