// Words for numbers, and elements from words. Text enters the page as text only: what a device says cannot be markup.

export const MINUS = '\u2212';

export function count(value) {
  return Number.isFinite(value) ? value.toLocaleString('en') : '\u2013';
}

export function figure(value, digits = 5) {
  if (value === null || value === undefined || !Number.isFinite(value)) return '\u2013';
  if (value === 0) return '0';
  const size = Math.abs(value);
  const text = size >= 1e6 || size < 1e-3 ? value.toExponential(Math.max(digits - 2, 1)) : value.toPrecision(digits);
  return text.replace('e+', 'e').replaceAll('-', MINUS);
}

// Of an axis, whose numbers are round: no more digits than there are.
export function tick(value) {
  const isPlain = value === 0 || Math.abs(value) >= 1e-3;
  return isPlain ? String(Number(value.toPrecision(6))).replace('-', MINUS) : figure(value, 3);
}

export function bytes(value) {
  if (!Number.isFinite(value)) return '\u2013';
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    ++unit;
  }
  return `${unit === 0 ? value : value.toPrecision(3)}\u00a0${units[unit]}`;
}

// Of RAM: 1 KiB is 1024.
export function memory(value) {
  if (value < 1024) return `${value}\u00a0B`;
  return value < 1048576 ? `${(value / 1024).toFixed(1)}\u00a0KiB` : `${(value / 1048576).toFixed(1)}\u00a0MiB`;
}

export function duration(ms) {
  if (!Number.isFinite(ms)) return '\u2013';
  if (ms < 1) return `${Math.round(ms * 1000)}\u00a0µs`;
  if (ms < 1000) return `${ms < 10 ? ms.toFixed(1) : Math.round(ms)}\u00a0ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)}\u00a0s`;
  const minutes = Math.floor(seconds / 60);
  const rest = Math.floor(seconds % 60);
  if (minutes < 60) return `${minutes}\u00a0min${rest ? ` ${rest}\u00a0s` : ''}`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours}\u00a0h ${minutes % 60}\u00a0min`;
  return `${Math.floor(hours / 24)}\u00a0d ${hours % 24}\u00a0h`;
}

// In one unit: an age that is read while it grows.
export function age(ms) {
  const seconds = Math.max(1, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds}\u00a0s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}\u00a0min`;
  return seconds < 172800 ? `${Math.floor(seconds / 3600)}\u00a0h` : `${Math.floor(seconds / 86400)}\u00a0d`;
}

export function clock(ms) {
  return new Date(ms).toLocaleTimeString('en-GB');
}

export function plural(n, one, many = `${one}s`) {
  return `${count(n)} ${n === 1 ? one : many}`;
}

// words('too_stale') = 'too stale'
export function words(key) {
  return key.replaceAll('_', ' ');
}

// make('p', {class: 'quiet'}, 'text', element, ...)
export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    element.setAttribute(key, value === true ? '' : value);
  }
  element.append(...children);
  return element;
}

export function byId(id) {
  return document.getElementById(id);
}

// Writes only what differs, so that nothing is announced, selected or drawn again for nothing.
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

// Where it is too wide for the screen it scrolls sideways; who has no pointer does that by keys.
function scrolling(table, caption) {
  const frame = make('div', {class: 'rows'}, table);
  const told = {role: 'region', tabindex: '0', 'aria-label': `${caption}, scrolls sideways`};
  const look = () => {
    const hidden = frame.scrollWidth - frame.clientWidth;
    for (const [key, value] of Object.entries(told)) {
      if (hidden > 0) frame.setAttribute(key, value);
      else frame.removeAttribute(key);
    }
    frame.classList.toggle('more', frame.scrollLeft < hidden - 1);
  };
  frame.addEventListener('scroll', look, {passive: true});
  const observer = new ResizeObserver(look);
  observer.observe(table);
  observer.observe(frame);
  return frame;
}

// A table with sortable heads and pages, whose rows and focus stay where they are while values change.
//   columns: {key, label, cell(row) -> text or element, sort(row) -> number or text, number, long, head}
export class PagedTable {
  constructor(box, caption, columns, {pageSize = 10, sortKey = null, descending = false} = {}) {
    Object.assign(this, {columns, pageSize, sortKey, descending, page: 0, rows: []});
    this.heads = columns.map((column) => {
      const button = column.sort ? make('button', {type: 'button'}, column.label) : null;
      button?.addEventListener('click', () => this.sortBy(column.key));
      return make('th', {scope: 'col', class: classesOf(column)}, button ?? column.label);
    });
    this.body = make('tbody');
    const table = make('table', {}, make('caption', {class: 'unseen'}, caption),
        make('thead', {}, make('tr', {}, ...this.heads)), this.body);
    this.previous = make('button', {type: 'button'}, 'Previous');
    this.next = make('button', {type: 'button'}, 'Next');
    this.place = make('span');
    this.pager = make('p', {class: 'pager'}, this.previous, this.place, this.next);
    this.previous.addEventListener('click', () => this.turn(-1));
    this.next.addEventListener('click', () => this.turn(1));
    box.replaceChildren(scrolling(table, caption), this.pager);
  }

  sortBy(key) {
    this.descending = this.sortKey === key && !this.descending;
    this.sortKey = key;
    this.page = 0;
    this.show(this.rows);
  }

  turn(by) {
    this.page += by;
    this.show(this.rows);
  }

  show(rows) {
    this.rows = rows;
    const column = this.columns.find((each) => each.key === this.sortKey);
    const sorted = column ? rows.slice().sort((a, b) => compare(column.sort(a), column.sort(b))) : rows;
    if (this.descending) sorted.reverse();
    const pages = Math.max(1, Math.ceil(sorted.length / this.pageSize));
    this.page = Math.min(Math.max(this.page, 0), pages - 1);
    const first = this.page * this.pageSize;
    this.fill(sorted.slice(first, first + this.pageSize));
    this.columns.forEach((each, i) => {
      const order = each.key !== this.sortKey ? null : this.descending ? 'descending' : 'ascending';
      if (order) this.heads[i].setAttribute('aria-sort', order);
      else this.heads[i].removeAttribute('aria-sort');
    });
    this.pager.hidden = pages === 1;
    const last = Math.min(first + this.pageSize, sorted.length);
    setText(this.place, `${count(first + 1)} to ${count(last)} of ${count(sorted.length)}`);
    this.previous.disabled = this.page === 0;
    this.next.disabled = this.page === pages - 1;
  }

  fill(rows) {
    while (this.body.rows.length > rows.length) this.body.lastElementChild.remove();
    rows.forEach((row, r) => {
      const line = this.body.rows[r] ?? this.body.appendChild(this.emptyRow());
      this.columns.forEach((column, c) => {
        const value = column.cell(row, line.cells[c]);
        if (typeof value === 'string') setText(line.cells[c], value);
      });
    });
  }

  emptyRow() {
    return make('tr', {}, ...this.columns.map((column) =>
        make(column.head ? 'th' : 'td', {scope: column.head ? 'row' : null, class: classesOf(column)})));
  }
}

function classesOf(column) {
  return [column.number ? 'number' : '', column.long ? 'long' : ''].join(' ').trim() || null;
}

function compare(a, b) {
  return typeof a === 'string' ? a.localeCompare(b, 'en', {numeric: true}) : a - b;
}
