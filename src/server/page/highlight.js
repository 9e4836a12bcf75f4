// A light colouring of code: comments, texts, numbers and common words of the usual languages. It never changes the
// text, and what it does not know stays plain.
import {el} from './dom.js';

const WORDS = new Set(('abstract and as assert async await auto base bool boolean break byte case catch chan char class ' +
  'const constexpr constructor continue def default defer del delete do done double dyn elif else end enum esac except ' +
  'export extends extern false False fi final finally float fn for from func function global go goto if impl ' +
  'implements import in include inline instanceof int interface is lambda let long loop match mod module move mut ' +
  'namespace new nil none None nonlocal not null nullptr operator or override package pass private protected pub ' +
  'public raise range ref return self Self short signed sizeof static str string struct super switch template then ' +
  'this throw trait true True try type typedef typename typeof undefined union unsafe unsigned use using var virtual ' +
  'void volatile where while with yield SELECT FROM WHERE INSERT INTO VALUES UPDATE SET DELETE JOIN ON GROUP ORDER BY ' +
  'LIMIT CREATE TABLE AND OR NOT NULL AS').split(' '));

const TEXT = /"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?|`(?:[^`\\]|\\.)*`?/;
const NUMBER = /\b(?:0[xX][0-9a-fA-F_]+|\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?)\b/;
const WORD = /[A-Za-z_$][\w$]*/;
const SLASHES = /\/\/[^\n]*|\/\*[^]*?(?:\*\/|$)/;
const HASH = /#[^\n]*/;
const DASHES = /--[^\n]*/;

const BY_LANGUAGE = new Map([
  [HASH, 'py python sh bash shell zsh ruby rb yaml yml toml perl r make makefile dockerfile cmake elixir nim'],
  [SLASHES, 'js javascript ts typescript jsx tsx json c h cpp c++ cc cs java kotlin swift go rust rs scala dart php css ' +
    'scss zig cuda glsl'],
  [DASHES, 'sql lua haskell hs ada'],
].flatMap(([comment, names]) => names.split(' ').map((name) => [name, comment])));

const MAX_CHARS = 50000;

// Nodes and texts that together spell `code`.
export function highlight(code, language) {
  const comment = BY_LANGUAGE.get(language.toLowerCase());
  if (!comment || code.length > MAX_CHARS) return [code];
  const pattern = new RegExp(`(${comment.source})|(${TEXT.source})|(${NUMBER.source})|(${WORD.source})`, 'g');
  const out = [];
  let at = 0;
  for (const match of code.matchAll(pattern)) {
    const [all, note, text, number, word] = match;
    const kind = note ? 'comment' : text ? 'text' : number ? 'number' : WORDS.has(word) ? 'word' : null;
    if (!kind) continue;
    out.push(code.slice(at, match.index), el('span', {class: `code-${kind}`}, all));
    at = match.index + all.length;
  }
  out.push(code.slice(at));
  return out;
}
