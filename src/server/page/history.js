// The list of conversations at the side.
import {byId, download, el, iconButton, say} from './dom.js';
import * as store from './store.js';

const DAY = 86400000;

function ageGroup(time) {
  const midnight = new Date().setHours(0, 0, 0, 0);
  if (time >= midnight) return 'Today';
  if (time >= midnight - DAY) return 'Yesterday';
  return time >= midnight - 7 * DAY ? 'Last seven days' : 'Older';
}

export class History {
  // `ask(question, action)` resolves to whether the user agrees; `onOpen` closes the drawer of small screens.
  constructor(chats, ask, onOpen) {
    Object.assign(this, {chats, ask, onOpen, renaming: null});
    byId('new-chat').addEventListener('click', () => {
      chats.openNew();
      onOpen();
    });
    byId('export-all').addEventListener('click', () => this.export(store.list(), 'tokamak-conversations.json'));
    byId('import').addEventListener('click', () => byId('import-file').click());
    byId('import-file').addEventListener('change', (event) => this.import(event.target));
    for (const type of ['open', 'run', 'ended']) chats.addEventListener(type, () => this.render());
    addEventListener('storage', (event) => store.isConversationKey(event.key) && chats.reload());
    this.render();
  }

  export(conversations, name) {
    if (conversations.length === 0) return say('There is nothing to export yet');
    download(name, new Blob([store.exportText(conversations)], {type: 'application/json'}));
  }
  async import(input) {
    const [file] = input.files;
    input.value = '';
    if (!file) return;
    try {
      const n = store.importText(await file.text());
      this.note(`Imported ${n} conversation${n === 1 ? '' : 's'}.`);
    } catch (error) {
      this.note(error.message);
    }
    this.render();
  }
  note(text) {
    byId('history-note').textContent = text;
    setTimeout(() => {
      if (byId('history-note').textContent === text) byId('history-note').textContent = '';
    }, 6000);
  }

  render() {
    if (this.renaming) return;
    const focused = document.activeElement?.dataset?.key;
    const all = store.list();
    const groups = new Map();
    for (const conversation of all) {
      const group = ageGroup(conversation.updated);
      if (!groups.has(group)) groups.set(group, []);
      groups.get(group).push(this.entry(conversation));
    }
    byId('history').replaceChildren(...[...groups].map(([name, entries]) =>
      el('section', {'aria-label': name}, el('h2', {}, name), el('ul', {}, entries))));
    byId('history-empty').hidden = all.length > 0;
    if (focused) document.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
  }

  entry(conversation) {
    const {id} = conversation;
    const title = store.titleOf(conversation);
    const isCurrent = id === this.chats.current.id;
    const item = el('li', {class: isCurrent ? 'current' : null},
      el('button', {type: 'button', class: 'open', title, 'data-key': `open-${id}`,
        'aria-current': isCurrent ? 'true' : null, on: {click: () => {
          this.chats.open(id);
          this.onOpen();
        }, dblclick: () => this.rename(item, conversation)}},
      this.chats.runs.has(id) && el('span', {class: 'pulse', title: 'An answer is on its way'}), title),
      el('span', {class: 'tools'},
        iconButton('pencil', `Rename “${title}”`, () => this.rename(item, conversation), {'data-key': `name-${id}`}),
        iconButton('save', `Export “${title}”`, () => this.export([conversation], 'conversation.json'),
          {'data-key': `export-${id}`}),
        iconButton('trash', `Delete “${title}”`, () => this.remove(conversation), {'data-key': `delete-${id}`})));
    return item;
  }

  rename(item, conversation) {
    const input = el('input', {'aria-label': 'New name', maxlength: 200, value: store.titleOf(conversation)});
    const finish = (keep) => {
      if (this.renaming !== input) return;
      this.renaming = null;
      if (keep) this.chats.rename(conversation.id, input.value);
      this.render();
      document.querySelector(`[data-key="open-${conversation.id}"]`)?.focus();
    };
    input.addEventListener('keydown', (event) => {
      if (event.key === 'Enter') finish(true);
      if (event.key === 'Escape') {
        event.stopPropagation();
        finish(false);
      }
    });
    input.addEventListener('blur', () => finish(true));
    this.renaming = input;
    item.replaceChildren(input);
    input.select();
  }
  async remove(conversation) {
    if (await this.ask(`Delete “${store.titleOf(conversation)}”?`, 'Delete')) this.chats.remove(conversation.id);
  }
}
