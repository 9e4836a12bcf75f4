// Builds elements. Text reaches the document only as text nodes and attributes: nothing here takes markup.

const SVG = 'http://www.w3.org/2000/svg';

function append(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : String(child));
  }
  return node;
}

function set(node, props) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === 'on') {
      for (const [type, listener] of Object.entries(value)) node.addEventListener(type, listener);
    } else if (name === 'value' || name === 'checked') {
      node[name] = value;
    } else {
      node.setAttribute(name, value === true ? '' : value);
    }
  }
  return node;
}

// el('p', {class: 'x', on: {click: f}}, 'text', node, [more])
export function el(tag, props = {}, ...children) {
  return append(set(document.createElement(tag), props), children);
}

export function svg(tag, props = {}, ...children) {
  return append(set(document.createElementNS(SVG, tag), props), children);
}

// Outlines on a grid of 24 x 24.
const ICONS = {
  menu: 'M4 6h16M4 12h16M4 18h16',
  plus: 'M12 5v14M5 12h14',
  gear: 'M4 7h9M17 7h3M4 17h3M11 17h9M15 4.5v5M9 14.5v5',
  send: 'M12 19V5M5.5 11.5 12 5l6.5 6.5',
  stop: 'M7 7h10v10H7z',
  copy: 'M9 9h10v11H9zM5 15V4h10',
  check: 'M5 12.5 10 17.5 19.5 7',
  pencil: 'M4 20l1-4.5L16.5 4 20 7.5 8.5 19zM14 6.5 17.5 10',
  again: 'M20 12a8 8 0 1 1-2.5-5.8M20 3v5h-5',
  trash: 'M5 7h14M9 7V4h6v3M7 7l1 13h8l1-13M10.5 11v5M13.5 11v5',
  down: 'M12 5v14M5.5 12.5 12 19l6.5-6.5',
  save: 'M12 4v11M7 10.5 12 15.5l5-5M5 20h14',
  load: 'M12 16V5M7 9.5 12 4.5l5 5M5 20h14',
  chart: 'M4 20h16M7 16V9M12 16V4M17 16v-5',
  tool: 'M9 4C6 4 8 10.5 4.5 12 8 13.5 6 20 9 20M15 4c3 0 1 6.5 4.5 8-3.5 1.5-1.5 8-4.5 8',
  theme: 'M12 4a8 8 0 1 0 0 16zM12 4a8 8 0 0 1 0 16',
  close: 'M6 6l12 12M18 6 6 18',
  play: 'M8 5l11 7-11 7z',
};

export function icon(name) {
  return svg('svg', {viewBox: '0 0 24 24', class: 'icon', 'aria-hidden': 'true', focusable: 'false'},
    svg('path', {d: ICONS[name]}));
}

// A button with an icon; its name is read aloud and shown as a tooltip.
export function iconButton(name, label, onClick, props = {}) {
  return el('button', {type: 'button', class: 'icon-button', 'aria-label': label, title: label,
    on: {click: onClick}, ...props}, icon(name));
}

export function byId(id) {
  return document.getElementById(id);
}

export function download(name, blob) {
  const link = el('a', {href: URL.createObjectURL(blob), download: name});
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// The clipboard needs a secure page; elsewhere the old command does it.
async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = el('textarea', {class: 'offscreen', 'aria-hidden': 'true', tabindex: '-1', value: text});
    document.body.append(area);
    area.select();
    document.execCommand('copy');
    area.remove();
  }
}

// `read` gives the text at the time of the click.
export function copyButton(label, read) {
  const button = iconButton('copy', label, async () => {
    await copyText(read());
    button.replaceChildren(icon('check'));
    say('Copied');
    setTimeout(() => button.replaceChildren(icon('copy')), 1500);
  });
  return button;
}

// One short sentence for screen readers.
export function say(text) {
  byId('announcer').textContent = text;
}

export const reducedMotion = () => matchMedia('(prefers-reduced-motion: reduce)').matches;
