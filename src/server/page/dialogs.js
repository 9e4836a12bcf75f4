// Dialogs, the theme, and the drawer of small screens.
import {byId} from './dom.js';
import {saveSettings, settings} from './settings.js';

// Resolves to whether the user agreed.
export function confirmDialog(question, action) {
  const dialog = byId('confirm');
  byId('confirm-text').textContent = question;
  byId('confirm-yes').textContent = action;
  dialog.returnValue = '';
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener('close', () => resolve(dialog.returnValue === 'yes'), {once: true});
  });
}

// A click beside a dialog closes it, as Escape does.
export function prepareDialogs() {
  for (const dialog of document.querySelectorAll('dialog')) {
    dialog.addEventListener('click', (event) => {
      if (event.target === dialog) dialog.close();
    });
    for (const button of dialog.querySelectorAll('[data-close]'))
      button.addEventListener('click', () => dialog.close(button.dataset.close));
  }
}

const THEMES = ['', 'light', 'dark'];
const THEME_NAMES = {'': 'as the system', light: 'light', dark: 'dark'};

export function prepareTheme(redraw) {
  const button = byId('theme');
  const apply = () => {
    if (settings.theme) document.documentElement.dataset.theme = settings.theme;
    else delete document.documentElement.dataset.theme;
    const label = `Colours: ${THEME_NAMES[settings.theme]}. Change`;
    button.setAttribute('aria-label', label);
    button.title = label;
    redraw();
  };
  button.addEventListener('click', () => {
    settings.theme = THEMES[(THEMES.indexOf(settings.theme) + 1) % THEMES.length];
    saveSettings();
    apply();
  });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
  if (!THEMES.includes(settings.theme)) settings.theme = '';
  apply();
}

// The list of conversations: beside the conversation where there is room, else over it.
export class Drawer {
  constructor() {
    this.narrow = matchMedia('(max-width: 860px)');
    this.isOpen = !this.narrow.matches;
    byId('menu').addEventListener('click', () => this.set(!this.isOpen));
    byId('scrim').addEventListener('click', () => this.set(false));
    byId('close-sidebar').addEventListener('click', () => this.set(false));
    byId('sidebar').addEventListener('keydown', (event) => {
      if (event.key === 'Escape' && this.narrow.matches) this.set(false);
    });
    this.narrow.addEventListener('change', () => this.set(!this.narrow.matches, false));
    this.set(this.isOpen, false);
  }
  set(isOpen, moveFocus = true) {
    this.isOpen = isOpen;
    const covers = isOpen && this.narrow.matches;
    document.body.classList.toggle('with-sidebar', isOpen);
    byId('sidebar').inert = !isOpen;
    byId('main').inert = covers;
    byId('scrim').hidden = !covers;
    byId('menu').setAttribute('aria-expanded', String(isOpen));
    if (moveFocus) byId(isOpen ? 'new-chat' : 'menu').focus();
  }
  closeIfOver() {
    if (this.narrow.matches && this.isOpen) this.set(false, false);
  }
}
