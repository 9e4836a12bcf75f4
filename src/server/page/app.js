// Puts the page together: the conversation in the middle and everything around it.
import {Chats} from './chat.js';
import {Composer} from './composer.js';
import {confirmDialog, Drawer, prepareDialogs, prepareTheme} from './dialogs.js';
import {byId, icon, reducedMotion, say} from './dom.js';
import {History} from './history.js';
import {MessageView} from './message.js';
import {buildSettings, showDefaults} from './settings.js';
import {Status} from './status.js';
import {titleOf} from './store.js';
import {apiKey} from './stream.js';

const NEAR_END_PX = 80;

// The messages on the screen, and following their end while an answer grows.
class Conversation {
  constructor(chats) {
    Object.assign(this, {chats, views: [], follows: true, waiting: false, costMs: 0});
    this.log = byId('log');
    this.actions = {
      resend: (index, text) => chats.resend(index, text),
      regenerate: () => chats.regenerate(),
      goOn: () => chats.goOn(),
      answerCalls: (results) => chats.answerCalls(results),
      setKey: (key) => {
        apiKey.set(key);
        status.poll();
        chats.regenerate();
      },
    };
    this.log.addEventListener('scroll', () => this.scrolled());
    byId('to-end').addEventListener('click', () => {
      this.log.scrollTo({top: this.log.scrollHeight, behavior: reducedMotion() ? 'auto' : 'smooth'});
      this.follows = true;
    });
    chats.addEventListener('open', () => this.rebuild());
    chats.addEventListener('messages', () => this.sync());
    chats.addEventListener('update', () => this.schedule());
    chats.addEventListener('ended', (event) => this.ended(event.detail));
    chats.addEventListener('run', () => this.showTitle());
    chats.addEventListener('trouble', (event) => this.showTrouble(event.detail));
    this.rebuild();
  }

  rebuild() {
    byId('messages').replaceChildren();
    this.views = [];
    this.follows = true;
    this.sync();
  }
  // Views for exactly the messages there are.
  sync() {
    const {messages} = this.chats.current;
    let same = 0;
    while (same < this.views.length && this.views[same].message === messages[same]) same++;
    for (const view of this.views.splice(same)) view.node.remove();
    for (const message of messages.slice(same)) {
      const index = this.views.length;
      const view = new MessageView(message, {...this.actions, resend: (text) => this.actions.resend(index, text)});
      this.views.push(view);
      byId('messages').append(view.node);
    }
    this.views.forEach((view, i) => this.update(view, i));
    byId('empty').hidden = messages.length > 0;
    byId('trouble').hidden = true;
    this.follows = true;
    this.showTitle();
    this.toEnd();
    if (this.chats.run()) say('The answer begins');
  }
  update(view, index) {
    const run = this.chats.run()?.run;
    view.update(run?.message === view.message ? run : null, index === this.views.length - 1);
  }
  // At most once a frame, and seldom enough that drawing takes a quarter of the time.
  schedule() {
    if (this.waiting) return;
    this.waiting = true;
    setTimeout(() => requestAnimationFrame(() => {
      this.waiting = false;
      const start = performance.now();
      this.updateLast();
      this.costMs = performance.now() - start;
    }), 3 * this.costMs);
  }
  updateLast() {
    if (this.views.length === 0) return;
    this.update(this.views.at(-1), this.views.length - 1);
    this.toEnd();
  }
  ended({conversation, message}) {
    if (conversation !== this.chats.current) return;
    this.updateLast();
    if (!message.error && this.chats.current.messages.includes(message)) {
      const tokens = message.stats.generated ?? 0;
      say(message.stopped ? 'Stopped' : `The answer is complete: ${tokens} tokens`);
    }
  }

  scrolled() {
    this.follows = this.log.scrollHeight - this.log.scrollTop - this.log.clientHeight < NEAR_END_PX;
    byId('to-end').hidden = this.follows;
  }
  toEnd() {
    if (this.follows) this.log.scrollTop = this.log.scrollHeight;
  }
  showTitle() {
    const {current} = this.chats;
    const title = current.messages.length ? titleOf(current) : 'New conversation';
    byId('title').textContent = title;
    document.title = current.messages.length ? `${title} · Tokamak` : 'Tokamak';
  }
  showTrouble(text) {
    byId('trouble').textContent = text;
    byId('trouble').hidden = false;
  }
  redraw() {
    for (const view of this.views) view.redraw();
  }
}

function placeIcons() {
  for (const node of document.querySelectorAll('[data-icon]')) node.prepend(icon(node.dataset.icon));
}

// Keys that hold everywhere, except where a dialog or an editor has taken them.
function handleKeys(chats, composer) {
  addEventListener('keydown', (event) => {
    if (document.querySelector('dialog[open]') || event.defaultPrevented) return;
    if (event.key === 'Escape' && chats.run()) composer.stop();
    if (event.key.toLowerCase() === 'o' && event.shiftKey && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      byId('new-chat').click();
      byId('prompt').focus();
    }
  });
}

placeIcons();
prepareDialogs();
const chats = new Chats();
const status = new Status(() => chats.runs.size > 0);
const conversation = new Conversation(chats);
prepareTheme(() => conversation.redraw());

function openSettings() {
  buildSettings({get: () => chats.current.system, set: (text) => chats.setSystem(text)}, () => status.poll());
  showDefaults(status.props?.default_generation_settings?.params);
  byId('settings').showModal();
}
byId('open-settings').addEventListener('click', openSettings);

const composer = new Composer(chats, openSettings);
const drawer = new Drawer();
new History(chats, confirmDialog, () => drawer.closeIfOver());
handleKeys(chats, composer);
for (const type of ['messages', 'ended']) chats.addEventListener(type, () => status.poll());
for (const button of document.querySelectorAll('#suggestions button'))
  button.addEventListener('click', () => composer.fill(button.textContent));
if (!matchMedia('(pointer: coarse)').matches) byId('prompt').focus();  // would open a keyboard on the screen
