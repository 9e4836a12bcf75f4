// Markdown to document nodes. Everything a model or a user wrote becomes text nodes: HTML stays visible as written,
// links lead only to http, https and mailto, and pictures are shown as links, so nothing is loaded from elsewhere.
//
// splitBlocks() cuts a text into top-level blocks and renderInto() renders only those that changed, so that streaming
// a long answer stays cheap and finished blocks keep their selection. Time is linear in the text; nesting is bounded.
import {copyButton, download, el, iconButton} from './dom.js';
import {highlight} from './highlight.js';

const MAX_DEPTH = 8;
const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^`\s]*)[^`]*$/;
const HEADING = /^ {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$/;
const RULE = /^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])(?:([ \t]+)(.*)|)$/;
const TABLE_LINE = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;

const isBlank = (line) => line.trim() === '';
const indentOf = (line) => line.length - line.trimStart().length;

function startsBlock(line) {
  const item = ITEM.exec(line);
  return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line) ||
      (item !== null && item[4] !== undefined);
}

// The line after the block that starts at `at`, and its kind.
function blockEnd(lines, at) {
  const line = lines[at];
  const fence = FENCE.exec(line);
  if (fence) {
    const close = new RegExp(`^ {0,3}${fence[1][0] === '`' ? '`' : '~'}{${fence[1].length},}[ \\t]*$`);
    let end = at + 1;
    while (end < lines.length && !close.test(lines[end])) end++;
    return {kind: 'code', end: Math.min(end + 1, lines.length), closed: end < lines.length};
  }
  if (HEADING.test(line)) return {kind: 'heading', end: at + 1};
  if (RULE.test(line)) return {kind: 'rule', end: at + 1};
  if (QUOTE.test(line)) return {kind: 'quote', end: runEnd(lines, at, (l) => QUOTE.test(l))};
  if (ITEM.test(line)) return {kind: 'list', end: listEnd(lines, at)};
  if (line.includes('|') && at + 1 < lines.length && TABLE_LINE.test(lines[at + 1]) && lines[at + 1].includes('-'))
    if (cells(line).length === cells(lines[at + 1]).length)
      return {kind: 'table', end: runEnd(lines, at, (l) => l.includes('|'))};
  return {kind: 'paragraph', end: paragraphEnd(lines, at)};
}

function runEnd(lines, at, belongs) {
  let end = at + 1;
  while (end < lines.length && belongs(lines[end])) end++;
  return end;
}

function paragraphEnd(lines, at) {
  return runEnd(lines, at, (line) => !isBlank(line) && !startsBlock(line));
}

// A list goes on over items, indented lines and single blank lines between them.
function listEnd(lines, at) {
  const ordered = /^\s*\d/.test(lines[at]);
  let end = at + 1;
  let inFence = false;
  while (end < lines.length) {
    const line = lines[end];
    if (/^\s+(```|~~~)/.test(line)) inFence = !inFence;
    if (isBlank(line)) {
      const next = lines[end + 1];
      if (next === undefined || isBlank(next) && !inFence) break;
      const item = ITEM.exec(next);
      if (indentOf(next) < 2 && (!item || /^\d/.test(item[2]) !== ordered)) break;
    } else if (indentOf(line) < 2 && !inFence) {
      const item = ITEM.exec(line);
      if (item ? RULE.test(line) || /^\d/.test(item[2]) !== ordered : startsBlock(line)) break;
    }
    end++;
  }
  return end;
}

export function splitBlocks(text) {
  const lines = text.replace(/\r\n?/g, '\n').replace(/\t/g, '    ').split('\n');
  const blocks = [];
  for (let at = 0; at < lines.length;) {
    if (isBlank(lines[at])) {
      at++;
      continue;
    }
    const {kind, end, closed} = blockEnd(lines, at);
    blocks.push({kind, closed, lines: lines.slice(at, end)});
    at = end;
  }
  return blocks;
}

const RENDER = {
  code: renderCode,
  heading: renderHeading,
  rule: () => el('hr'),
  quote: (block, depth) =>
    el('blockquote', {}, renderBlocks(block.lines.map((line) => line.replace(QUOTE, '')), depth + 1)),
  list: renderList,
  table: renderTable,
  paragraph: (block) => el('p', {}, inline(block.lines.map((line) => line.trimStart()).join('\n'))),
};

function renderBlocks(lines, depth) {
  if (depth > MAX_DEPTH) return [el('p', {}, lines.join('\n'))];
  return splitBlocks(lines.join('\n')).map((block) => RENDER[block.kind](block, depth));
}

const ENDINGS = {python: 'py', javascript: 'js', typescript: 'ts', 'c++': 'cpp', bash: 'sh', shell: 'sh', rust: 'rs',
  markdown: 'md'};

function renderCode(block) {
  const [first, ...rest] = block.lines;
  const language = FENCE.exec(first)?.[2] ?? '';
  const indent = indentOf(first);
  if (block.closed) rest.pop();
  const code = rest.map((line) => line.slice(Math.min(indent, indentOf(line)))).join('\n');
  const ending = ENDINGS[language.toLowerCase()] ?? (/^[a-z0-9]{1,8}$/.test(language) ? language : 'txt');
  return el('figure', {class: 'code'},
    el('figcaption', {}, el('span', {class: 'language'}, language || 'text'),
      copyButton('Copy code', () => code),
      iconButton('save', 'Save code as a file', () => download(`code.${ending}`, new Blob([code])))),
    el('pre', {tabindex: '0', 'aria-label': `Code, ${language || 'text'}`}, el('code', {}, highlight(code, language))));
}

function renderHeading(block) {
  const [, marks, text] = HEADING.exec(block.lines[0]);
  // The page's own headings are levels 1 and 2.
  return el(`h${Math.min(6, marks.length + 2)}`, {class: `level-${marks.length}`}, inline(text ?? ''));
}

function renderList(block, depth) {
  const items = [];
  let loose = false;
  for (const line of block.lines) {
    const match = indentOf(line) < 2 || items.length === 0 ? ITEM.exec(line) : null;
    if (match) {
      const width = match[1].length + match[2].length + (match[3] ?? ' ').length;
      items.push({marker: match[2], width, lines: [match[4] ?? '']});
    } else if (isBlank(line)) {
      loose = true;
      items.at(-1).lines.push('');
    } else {
      const item = items.at(-1);
      item.lines.push(line.slice(Math.min(item.width, indentOf(line))));
    }
  }
  const ordered = /^\d/.test(items[0].marker);
  const list = el(ordered ? 'ol' : 'ul', {class: loose ? 'loose' : null, start: ordered ? parseInt(items[0].marker, 10) : null});
  for (const item of items) list.append(renderItem(item, depth));
  return list;
}

function renderItem(item, depth) {
  const task = /^\[([ xX])\] /.exec(item.lines[0]);
  if (task) item.lines[0] = item.lines[0].slice(4);
  const node = el('li', {class: task ? 'task' : null},
    task && el('input', {type: 'checkbox', disabled: true, checked: task[1] !== ' ', 'aria-label': 'Task'}));
  for (const child of renderBlocks(item.lines, depth + 1)) {
    // A paragraph alone in its item needs no margins.
    if (child.tagName === 'P' && !item.lines.includes('')) node.append(...child.childNodes);
    else node.append(child);
  }
  return node;
}

function cells(line) {
  const inner = line.trim().replace(/^\|/, '').replace(/\|$/, '');
  return inner.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll('\\|', '|'));
}

function renderTable(block) {
  const aligns = cells(block.lines[1]).map((cell) =>
    /^:.*:$/.test(cell) ? 'center' : cell.endsWith(':') ? 'right' : null);
  const row = (line, tag) => {
    const found = cells(line);
    return el('tr', {}, aligns.map((align, i) => el(tag, {class: align}, inline(found[i] ?? ''))));
  };
  return el('div', {class: 'table', tabindex: '0', role: 'region', 'aria-label': 'Table'}, el('table', {},
    el('thead', {}, row(block.lines[0], 'th')),
    el('tbody', {}, block.lines.slice(2).map((line) => row(line, 'td')))));
}

// --- inside a block ---

const INLINE = new RegExp([
  /\\[!-/:-@[-`{-~]/,                                             // an escaped mark
  /(`+)(?!`)/,                                                    // code: group 1
  /!?\[([^[\]\n]{0,1000})\]\(\s*<?([^()\s<>]{0,2000}(?:\([^()\s<>]{0,500}\)[^()\s<>]{0,500})?)>?(?:\s+"[^"\n]{0,500}")?\s*\)/,
  /<?(https?:\/\/[^\s<>"`]{1,2000})>?/,                           // a bare address: group 4
  /(\*{1,3}|_{1,3}|~~)/,                                          // emphasis: group 5
  /(?: {2,}|\\)?\n/,                                              // end of a line
].map((part) => part.source).join('|'), 'g');

const TAGS = {'*': 'em', '_': 'em', '**': 'strong', '__': 'strong', '***': 'strong', '___': 'strong', '~~': 'del'};

export function safeLink(address) {
  try {
    const url = new URL(address);
    return ['http:', 'https:', 'mailto:'].includes(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

function link(address, label) {
  const href = safeLink(address);
  return href ? el('a', {href, rel: 'noopener noreferrer nofollow', target: '_blank'}, label) : label;
}

// Open emphasis, innermost last. Each is pushed and popped once, and there are few at a time.
class Emphasis {
  constructor() {
    this.frames = [{mark: '', nodes: []}];
  }
  add(node) {
    this.frames.at(-1).nodes.push(node);
  }
  // Marks next to spaces and underscores inside words are text.
  mark(mark, before, after) {
    const wordBefore = /[\p{L}\p{N}_]/u.test(before), wordAfter = /[\p{L}\p{N}_]/u.test(after);
    const mayOpen = /\S/.test(after) && !(mark[0] === '_' && wordBefore);
    const mayClose = /\S/.test(before) && !(mark[0] === '_' && wordAfter);
    const open = this.frames.findLastIndex((frame) => frame.mark === mark);
    if (mayClose && open > 0) {
      while (this.frames.length - 1 > open) this.flatten();
      const {nodes} = this.frames.pop();
      const inner = mark.length === 3 ? [el('em', {}, nodes)] : nodes;
      this.add(el(TAGS[mark], {}, inner));
    } else if (mayOpen && this.frames.length <= MAX_DEPTH) {
      this.frames.push({mark, nodes: []});
    } else {
      this.add(mark);
    }
  }
  flatten() {
    const {mark, nodes} = this.frames.pop();
    this.add(mark);
    for (const node of nodes) this.add(node);
  }
  finish() {
    while (this.frames.length > 1) this.flatten();
    return this.frames[0].nodes;
  }
}

function codeEnd(text, ticks, from, missing) {
  if (missing.has(ticks.length)) return -1;
  const runs = /`+/g;
  runs.lastIndex = from;
  for (let run = runs.exec(text); run; run = runs.exec(text))
    if (run[0].length === ticks.length) return run.index;
  missing.add(ticks.length);  // so that a text of lone ticks is not searched again for each of them
  return -1;
}

export function inline(text) {
  const out = new Emphasis();
  const missing = new Set();
  let at = 0;
  const pattern = new RegExp(INLINE);
  for (let match = pattern.exec(text); match; match = pattern.exec(text)) {
    if (match.index > at) out.add(text.slice(at, match.index));
    const [all, ticks, label, address, bare, mark] = match;
    at = pattern.lastIndex;
    if (ticks) {
      const end = codeEnd(text, ticks, at, missing);
      if (end < 0) {
        out.add(ticks);
      } else {
        const code = text.slice(at, end).replaceAll('\n', ' ');
        out.add(el('code', {}, /^ .*[^ ].* $/.test(code) ? code.slice(1, -1) : code));
        at = end + ticks.length;
      }
    } else if (address !== undefined) {
      out.add(safeLink(address) ? link(address, label || address) : all);
    } else if (bare) {
      const [, url, rest] = /^(.*?)([.,:;!?'")\]*_~]*)$/.exec(bare);
      out.add(link(url, url));
      at = match.index + all.indexOf(bare) + url.length + (rest === '' && all.endsWith('>') ? 1 : 0);
    } else if (mark) {
      out.mark(mark, text[match.index - 1] ?? ' ', text[at] ?? ' ');
    } else if (all.endsWith('\n')) {
      out.add(el('br'));
    } else {
      out.add(all.slice(1));
    }
    pattern.lastIndex = at;
  }
  if (at < text.length) out.add(text.slice(at));
  return out.finish();
}

// Brings `node` to show `text`; blocks that did not change stay.
export function renderInto(node, text) {
  const blocks = splitBlocks(text);
  const old = node.sources ?? [];
  const sources = blocks.map((block) => `${block.kind}${block.closed}\n${block.lines.join('\n')}`);
  let same = 0;
  while (same < sources.length && sources[same] === old[same]) same++;
  while (node.childNodes.length > same) node.lastChild.remove();
  for (const block of blocks.slice(same)) node.append(RENDER[block.kind](block, 0));
  node.sources = sources;
}
