// The picture of one run: waiting, the prompt part by part, every token as a tick, and below how long each token let
// wait for it, so that stalls are seen at once.
//
// Timeline: {progress: [[ms, processed, cache, total], ...], tokens: [ms, ...], end}, all times from sending on, as
// far apart as by the server's clock.
import {download, el, svg} from './dom.js';

export function newTimeline() {
  return {progress: [], tokens: [], end: 0};
}

function quantile(sorted, q) {
  return sorted.length ? sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))] : 0;
}

export function gapsOf(timeline) {
  return timeline.tokens.slice(1).map((ms, i) => ms - timeline.tokens[i]);
}

export function summary(timeline) {
  const gaps = gapsOf(timeline).sort((a, b) => a - b);
  const first = timeline.tokens[0];
  const started = timeline.progress[0]?.[0] ?? first ?? timeline.end;
  return {queue: started, prompt: (first ?? timeline.end) - started, median: quantile(gaps, 0.5),
    p99: quantile(gaps, 0.99), longest: gaps.at(-1) ?? 0, total: timeline.end};
}

export function duration(ms) {
  if (ms >= 10000) return `${(ms / 1000).toFixed(1)} s`;
  if (ms >= 1000) return `${(ms / 1000).toFixed(2)} s`;
  return `${ms >= 10 || ms === 0 ? Math.round(ms) : ms.toFixed(1)} ms`;
}

// Steps of 1, 2 or 5 that give at most `n` marks.
function step(span, n) {
  const rough = Math.max(span / n, 1e-6);
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((factor) => factor * power).find((value) => value >= rough);
}

function palette() {
  const style = getComputedStyle(document.documentElement);
  const color = (name) => style.getPropertyValue(`--${name}`).trim();
  return {back: color('raised'), text: color('text'), muted: color('muted'), line: color('line'),
    queue: color('chart-queue'), prompt: color('chart-prompt'), cached: color('chart-cached'),
    token: color('accent'), stall: color('chart-stall')};
}

const LEFT = 76, RIGHT = 14, TOP = 34, LANE = 22, GAPS = 84;

class Picture {
  constructor(timeline, width) {
    this.timeline = timeline;
    this.width = Math.max(300, width);
    this.colors = palette();
    this.end = Math.max(timeline.end, timeline.tokens.at(-1) ?? 0, 1);
    this.tokensY = TOP + LANE + 10;
    this.gapsY = this.tokensY + LANE + 14;
    this.height = this.gapsY + GAPS + 30;
    this.stats = summary(timeline);
    // A gap is a stall when it stands out from the others.
    this.stallFrom = Math.max(3 * this.stats.median, 50);
  }
  x(ms) {
    return LEFT + (this.width - LEFT - RIGHT) * ms / this.end;
  }
  text(x, y, content, props = {}) {
    return svg('text', {x, y, fill: this.colors.muted, ...props}, content);
  }
  // Width of a stroke for `share` of the room that a token has.
  stroke(share, most) {
    const room = (this.width - LEFT - RIGHT) / Math.max(1, this.timeline.tokens.length);
    return Math.min(most, Math.max(0.3, share * room)).toFixed(2);
  }
  bar(from, to, y, fill, title) {
    const x = this.x(from);
    return svg('rect', {x, y, width: Math.max(1, this.x(to) - x - 0.5), height: LANE, fill, rx: 2},
      svg('title', {}, title));
  }
  prompt() {
    const {progress, tokens} = this.timeline;
    const out = [this.text(LEFT - 8, TOP + 15, 'prompt', {'text-anchor': 'end'})];
    const first = tokens[0] ?? this.end;
    const started = progress[0]?.[0] ?? first;
    out.push(this.bar(0, started, TOP, this.colors.queue, `waiting: ${duration(started)}`));
    let [lastMs, lastDone] = [started, progress[0]?.[2] ?? 0];
    for (const [ms, done] of progress.slice(1)) {
      if (done > lastDone)
        out.push(this.bar(lastMs, ms, TOP, this.colors.prompt,
          `tokens ${lastDone} to ${done} of the prompt: ${duration(ms - lastMs)}`));
      [lastMs, lastDone] = [ms, Math.max(done, lastDone)];
    }
    if (first > lastMs)
      out.push(this.bar(lastMs, first, TOP, this.colors.prompt, `until the first token: ${duration(first - lastMs)}`));
    const cached = progress[0]?.[2] ?? 0;
    if (cached > 0) {
      out.push(svg('rect', {x: this.x(started) - 1.5, y: TOP - 3, width: 3, height: LANE + 6, rx: 1.5, fill: this.colors.cached},
        svg('title', {}, `${cached} tokens of the prompt were in the cache`)));
    }
    return out;
  }
  ticks() {
    const {tokens} = this.timeline;
    const path = tokens.map((ms) => `M${this.x(ms).toFixed(1)} ${this.tokensY}v${LANE}`).join('');
    return [this.text(LEFT - 8, this.tokensY + 15, 'tokens', {'text-anchor': 'end'}),
      svg('path', {d: path, stroke: this.colors.token, 'stroke-width': this.stroke(0.4, 1.2), fill: 'none'})];
  }
  gaps() {
    const gaps = gapsOf(this.timeline);
    const {tokens} = this.timeline;
    const top = Math.max(this.stats.longest, 1);
    const mark = step(top, 3);
    const y = (ms) => this.gapsY + GAPS * (1 - ms / (top * 1.08));
    const out = [this.text(12, this.gapsY + GAPS / 2, 'gap', {'text-anchor': 'middle',
      transform: `rotate(-90 12 ${this.gapsY + GAPS / 2})`})];
    for (let ms = 0; ms <= top * 1.08; ms += mark)
      out.push(svg('line', {x1: LEFT, x2: this.width - RIGHT, y1: y(ms), y2: y(ms), stroke: this.colors.line}),
        this.text(LEFT - 8, y(ms) + 4, duration(ms), {'text-anchor': 'end'}));
    const draw = (isStall, color) => {
      const d = gaps.map((gap, i) => (gap >= this.stallFrom) === isStall
        ? `M${this.x(tokens[i + 1]).toFixed(1)} ${y(0).toFixed(1)}V${y(gap).toFixed(1)}` : '').join('');
      return d && svg('path', {d, stroke: color, 'stroke-width': isStall ? 2.4 : this.stroke(0.5, 1.4), fill: 'none'});
    };
    out.push(draw(false, this.colors.token), draw(true, this.colors.stall));
    return out;
  }
  axis() {
    const mark = step(this.end, this.width < 480 ? 4 : 8);
    const out = [];
    const y = this.gapsY + GAPS;
    const label = (ms) => (mark < 1000 && this.end < 1000 ? `${Math.round(ms)} ms` : `${+(ms / 1000).toFixed(2)} s`);
    for (let ms = 0; ms <= this.end; ms += mark)
      out.push(svg('line', {x1: this.x(ms), x2: this.x(ms), y1: y, y2: y + 4, stroke: this.colors.muted}),
        this.text(this.x(ms), y + 18, ms === 0 ? '0' : label(ms), {'text-anchor': 'middle'}));
    return out;
  }
  legend() {
    const entries = [['waiting', this.colors.queue], ['prompt', this.colors.prompt]];
    if ((this.timeline.progress[0]?.[2] ?? 0) > 0) entries.push(['cache hit', this.colors.cached]);
    entries.push(['token', this.colors.token]);
    if (this.stats.longest >= this.stallFrom) entries.push(['stall', this.colors.stall]);
    let x = this.width < 480 ? 14 : LEFT;
    return entries.flatMap(([name, fill]) => {
      const at = x;
      x += 28 + name.length * 6;
      return [svg('rect', {x: at, y: 10, width: 9, height: 9, rx: 2, fill}), this.text(at + 14, 18.5, name)];
    });
  }
  draw() {
    const {width, height} = this;
    const s = this.stats;
    return svg('svg', {xmlns: 'http://www.w3.org/2000/svg', viewBox: `0 0 ${width} ${height}`, width, height, role: 'img',
      'font-family': 'system-ui, sans-serif', 'font-size': 11,
      'aria-label': `Timeline of the run: waited ${duration(s.queue)}, prompt ${duration(s.prompt)}, ` +
        `${this.timeline.tokens.length} tokens, longest gap ${duration(s.longest)}`},
    svg('rect', {width, height, fill: this.colors.back}),
    this.legend(), this.prompt(), this.ticks(), this.timeline.tokens.length > 1 && this.gaps(), this.axis());
  }
}

export function drawTimeline(timeline, width) {
  return new Picture(timeline, width).draw();
}

function saveSvg(node) {
  download('timeline.svg', new Blob([new XMLSerializer().serializeToString(node)], {type: 'image/svg+xml'}));
}

async function savePng(node) {
  const scale = 2;
  const source = new Blob([new XMLSerializer().serializeToString(node)], {type: 'image/svg+xml'});
  const image = new Image();
  image.src = URL.createObjectURL(source);
  await image.decode();
  const canvas = el('canvas', {width: node.viewBox.baseVal.width * scale, height: node.viewBox.baseVal.height * scale});
  canvas.getContext('2d').drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(image.src);
  canvas.toBlob((blob) => download('timeline.png', blob), 'image/png');
}

// The picture with its numbers and buttons, drawn anew when the width or the colours change.
export function timelineView(timeline) {
  const s = summary(timeline);
  const frame = el('div', {class: 'timeline-picture'});
  const draw = () => frame.replaceChildren(drawTimeline(timeline, frame.clientWidth || 600));
  const numbers = [['waited', s.queue], ['prompt', s.prompt], ['median gap', s.median], ['99 % gap', s.p99],
    ['longest gap', s.longest]];
  const view = el('figure', {class: 'timeline'}, frame, el('figcaption', {},
    el('dl', {class: 'numbers'}, numbers.map(([name, ms]) => el('div', {}, el('dt', {}, name), el('dd', {}, duration(ms))))),
    el('div', {class: 'row'},
      el('button', {type: 'button', class: 'small', on: {click: () => saveSvg(frame.firstChild)}}, 'Save SVG'),
      el('button', {type: 'button', class: 'small', on: {click: () => savePng(frame.firstChild)}}, 'Save PNG'))));
  let width = 0;
  new ResizeObserver(() => {
    if (frame.clientWidth === width) return;
    width = frame.clientWidth;
    draw();
  }).observe(frame);
  view.redraw = draw;
  view.timeline = timeline;
  return view;
}
