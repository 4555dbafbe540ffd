// What needs somebody, in the server's own sentences, the worst first; and commands that can be copied.
import {byId, make, plural, setText} from './text.js';

// More than these wait behind a button, so that the figures stay in sight.
const SHOWN_MAX = 4;
const ANSWER_MS = 3000;  // how long a button says what it has done

// Each level has a word and an icon of its own shape, beside its colour.
const LEVELS = {stops: 'Stops the run', slows: 'Slows the run', advice: 'Advice'};

const ended = (text) => /[.!?]$/.test(text) ? text : `${text}.`;

// To a screen reader alone, when it has said what it is at.
function say(sentence) {
  setText(byId('said'), sentence);
}

// What makes a command act on this server's database; nothing where the package's configuration is the server's.
let options = '';

export function setCommandOptions(text) {
  options = text ?? '';  // a server of an older release says none
}

// `doctor` asks from the device's side, where that configuration is not.
function withOptions(command) {
  if (!options || !command.startsWith('gradstream ') || command.startsWith('gradstream doctor ')) return command;
  const at = command.indexOf(' -- ');  // what stands behind it are names
  return at < 0 ? `${command} ${options}` : `${command.slice(0, at)} ${options}${command.slice(at)}`;
}

// An element for showCommand().
export function makeCommand() {
  const code = make('code');
  const word = make('span', {}, 'Copy');
  const button = make('button', {type: 'button', class: 'copy'}, word, make('span', {class: 'unseen'}));
  let timer = 0;
  button.addEventListener('click', async () => {
    const isCopied = await copy(code);
    setText(word, isCopied ? 'Copied' : 'Selected');
    const sentence = isCopied ? 'The command is copied.'
        : 'The command is selected. Copy it with your keys or your menu.';
    say(sentence);
    clearTimeout(timer);
    timer = setTimeout(() => {
      setText(word, 'Copy');
      if (byId('said').textContent === sentence) say('');
    }, ANSWER_MS);
  });
  return make('div', {class: 'command'}, code, button);
}

export function showCommand(box, words) {
  const command = withOptions(words);
  const code = box.firstElementChild;
  if (code.textContent !== command) {  // a line breaks between words, not behind the hyphens of an option
    code.replaceChildren(...command.split(' ').flatMap((word, i) => [i > 0 ? ' ' : '', make('span', {}, word)]));
  }
  setText(box.querySelector('.unseen'), ` the command ${command}`);
}

// False: the browser forbids it, as it does without TLS; then the text is selected.
async function copy(element) {
  try {
    await navigator.clipboard.writeText(element.textContent);
    return true;
  } catch { /* no permission, or no clipboard here */ }
  getSelection().selectAllChildren(element);
  try {
    return document.execCommand('copy');
  } catch {
    return false;
  }
}

// A name as a command's last word: it may hold blanks and quotes, and begin as an option does.
export function quoted(name) {
  const word = /^[\w.,:@%+/-]+$/.test(name) ? name : `'${name.replaceAll('\'', '\'\\\'\'')}'`;
  return name.startsWith('-') ? `-- ${word}` : word;
}

export class Attention {
  constructor() {
    this.rows = new Map();
    this.isWhole = false;
    this.told = null;
    this.list = byId('attention-list');
    byId('attention-more').addEventListener('click', () => {
      this.isWhole = !this.isWhole;
      this.show(this.items);
    });
  }

  // items: {id, level, text, remedy, command} as /status has them, the worst first.
  show(items) {
    this.items = items;
    byId('attention').hidden = items.length === 0;
    byId('calm').hidden = items.length > 0;
    const shown = this.isWhole ? items : items.slice(0, SHOWN_MAX);
    const button = byId('attention-more');
    button.hidden = items.length <= SHOWN_MAX;
    button.setAttribute('aria-expanded', String(this.isWhole));
    setText(button, this.isWhole ? 'Show the worst alone' : `Show ${items.length - SHOWN_MAX} more`);
    this.place(shown);
    this.tell(items);
  }

  // A row stays the same element while its words change, and so keeps the focus and what is selected.
  place(items) {
    const focus = document.activeElement;
    const seen = {};
    const wanted = new Map();
    for (const item of items) {
      seen[item.id] = (seen[item.id] ?? 0) + 1;
      const key = `${item.id} ${seen[item.id]}`;
      const row = this.rows.get(key) ?? makeRow();
      fill(row, item);
      wanted.set(key, row);
    }
    for (const [key, row] of this.rows) {
      if (!wanted.has(key)) row.remove();
    }
    this.rows = wanted;
    [...wanted.values()].forEach((row, i) => {
      if (this.list.children[i] !== row) this.list.insertBefore(row, this.list.children[i] ?? null);
    });
    if (focus?.isConnected && document.activeElement !== focus) focus.focus({preventScroll: true});
  }

  // A screen reader hears what comes and goes, not each second that a sentence counts.
  tell(items) {
    const kinds = items.map((item) => item.id + item.level).join();
    if (this.told === kinds) return;
    const wasCalm = this.told === null || this.told === '';
    this.told = kinds;
    if (items.length > 0) {
      say(`${plural(items.length, 'thing needs', 'things need')} attention. ${wordOf(items[0])}: ` +
          ended(items[0].text));
    } else if (!wasCalm) {
      say('Nothing needs attention any more.');
    }
  }
}

// Of a level that this page does not know: its own word.
const wordOf = (item) => LEVELS[item.level] ?? item.level;

function makeRow() {
  return make('li', {}, make('span', {class: 'icon', 'aria-hidden': 'true'}), make('div', {class: 'words'},
      make('p', {class: 'level'}), make('p', {class: 'sentence'}), make('p', {class: 'remedy'})), makeCommand());
}

function fill(row, item) {
  const name = `need ${item.level in LEVELS ? item.level : 'advice'}`;
  if (row.className !== name) row.className = name;
  setText(row.querySelector('.level'), wordOf(item));
  setText(row.querySelector('.sentence'), ended(item.text));
  const remedy = row.querySelector('.remedy');
  remedy.hidden = !item.remedy;
  if (item.remedy) setText(remedy, ended(item.remedy));
  const command = row.querySelector('.command');
  command.hidden = !item.command;
  if (item.command) showCommand(command, item.command);
}
