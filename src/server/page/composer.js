// The box for writing, its buttons and keys.
import {byId, el, iconButton} from './dom.js';
import {activeSettings, onSettings} from './settings.js';

export class Composer {
  constructor(chats, openSettings) {
    Object.assign(this, {chats, box: byId('prompt'), drafts: new Map()});
    byId('composer').addEventListener('submit', (event) => {
      event.preventDefault();
      this.submit();
    });
    byId('stop').addEventListener('click', () => this.stop());
    this.box.addEventListener('keydown', (event) => this.key(event));
    this.box.addEventListener('input', () => this.fit());
    chats.addEventListener('open', () => this.opened());
    for (const type of ['messages', 'run', 'ended']) chats.addEventListener(type, () => this.show());
    onSettings(() => this.showSettings(openSettings));
    this.showSettings(openSettings);
    this.id = chats.current.id;
    this.show();
    this.fit();
  }

  // What was being written stays with its conversation.
  opened() {
    this.drafts.set(this.id, this.box.value);
    this.id = this.chats.current.id;
    this.box.value = this.drafts.get(this.id) ?? '';
    this.fit();
    this.show();
    if (!matchMedia('(pointer: coarse)').matches) this.box.focus();
  }
  key(event) {
    if (event.isComposing) return;
    if (event.key === 'Enter' && !event.shiftKey) {
      event.preventDefault();
      this.submit();
    } else if (event.key === 'ArrowUp' && this.box.value === '') {
      const buttons = document.querySelectorAll('.message.user .actions button:last-child');
      if (buttons.length === 0) return;
      event.preventDefault();
      buttons[buttons.length - 1].click();
    }
  }
  submit() {
    const text = this.box.value;
    if (!text.trim() || this.chats.run()) return;
    this.box.value = '';
    this.fit();
    this.chats.send(text);
  }
  stop() {
    this.chats.stop();
    this.box.focus();
  }
  fill(text) {
    this.box.value = text;
    this.fit();
    this.box.focus();
  }
  fit() {
    this.box.style.height = 'auto';
    this.box.style.height = `${Math.min(this.box.scrollHeight, innerHeight * 0.4)}px`;
    this.show();
  }
  show() {
    const isRunning = Boolean(this.chats.run());
    byId('stop').hidden = !isRunning;
    byId('send').hidden = isRunning;
    byId('send').disabled = !this.box.value.trim();
  }
  showSettings(openSettings) {
    const active = activeSettings();
    byId('active-settings').replaceChildren(...active.map((text) => el('span', {class: 'chip'}, text)),
      ...(active.length ? [iconButton('gear', 'Change settings', openSettings)] : []));
    byId('active-settings').hidden = active.length === 0;
  }
}
