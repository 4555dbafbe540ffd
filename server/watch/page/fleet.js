// The fleet as a picture, one cell a device, and as a table; both show the groups of the same colouring.
import {makeCommand, quoted, showCommand} from './attention.js';
import {PagedTable, age, byId, bytes, clock, color, count, duration, figure, make, memory, plural, setText, words}
  from './text.js';

const HEIGHT_WANTED = 300;  // of the picture: cells are as large as that allows
const CELL_MAX = 40;
const CELL_MIN = 5;
const CELL_LINED = 20;  // from here on a cell has room for a line under it
const GROUPS_MAX = 6;  // of a figure or a word: more colours cannot be told apart

// In the order in which the legend has them. What each means stands in server/watch/words.h.
const STANDINGS = {
  in_time: 'its last update counted, in time and with all its steps',
  partial: 'its last update had fewer steps than asked',
  late: 'it works on a version that is over, or its last update began at one',
  refused: 'its last update was refused, or its task ended without one',
  new: 'it has sent no update yet',
  unable: 'its image lacks what the run needs, or it cannot do its tasks',
  silent: 'not connected, and not heard of for longer than a round and the widest retry window',
  off: 'pending, disabled or revoked',
};

// Of the task that it is at, where that is old by now, else of its last update.
const staleness = (d) => (d.has_task && Math.max(0, d.version - d.task_version)) || d.last_staleness;

// How devices may be coloured: by a word, or by a figure that is cut into ranges.
const GROUPINGS = {
  standing: {label: 'standing'},
  staleness: {label: 'staleness', value: staleness, form: (v) => plural(v, 'version'), whole: true},
  step_time: {label: 'step time', value: (d) => d.step_time_us, form: (v) => duration(v / 1000),
    unknown: 'not measured'},
  seen: {label: 'last seen', value: (d) => d.last_seen_ms ? Math.max(d.age_ms, 1) : 0, form: (v) => `${age(v)} ago`,
    unknown: 'never'},
  arena: {label: 'arena high water', value: (d) => d.arena_high_water_bytes, form: memory, unknown: 'not reported'},
  stack: {label: 'stack high water', value: (d) => d.stack_high_water_bytes, form: memory, unknown: 'not measured'},
  board: {label: 'board', word: (d) => d.board || 'not reported'},
  firmware: {label: 'firmware', word: (d) => d.firmware || 'not reported'},
  reset: {label: 'last reset', word: (d) => d.reset_cause === 'none' ? 'not reported' : words(d.reset_cause)},
};

const lastResult = (d) => d.last_verdict === 'none' ? 'none'
    : d.last_reason === 'none' ? words(d.last_verdict) : `${words(d.last_verdict)}: ${words(d.last_reason)}${d.last_floor === 'none' ? '' : `, floor ${words(d.last_floor)}`}`;

export class Fleet {
  constructor() {
    Object.assign(this, {devices: [], groups: [], chosen: null, cells: [], open: null});
    this.canvas = byId('fleet-picture');
    for (const [key, grouping] of Object.entries(GROUPINGS)) {
      byId('fleet-group').append(make('option', {value: key}, grouping.label));
    }
    byId('fleet-form').addEventListener('input', () => this.regroup());
    byId('fleet-form').addEventListener('submit', (event) => event.preventDefault());
    byId('fleet-find').addEventListener('input', () => this.showTable());
    byId('device-close').addEventListener('click', () => byId('device').close());
    byId('device').addEventListener('close', () => { this.open = null; });
    byId('device').addEventListener('click', (event) => {
      if (event.target === byId('device')) byId('device').close();  // beside it
    });
    this.canvas.addEventListener('pointermove', (event) => this.point(event));
    this.canvas.addEventListener('pointerleave', () => { byId('tip').hidden = true; });
    this.canvas.addEventListener('click', (event) => this.openDevice(this.deviceAt(event)));
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.regroup());
    new ResizeObserver(() => this.draw()).observe(this.canvas.parentElement);
    this.table = new PagedTable(byId('fleet-table'), 'Devices', [
      {key: 'device', label: 'Device', head: true, cell: (d, cell) => this.nameCell(d, cell), sort: (d) => d.device},
      {key: 'standing', label: 'Standing', cell: (d, cell) => standingCell(d, cell),
        sort: (d) => Object.keys(STANDINGS).indexOf(d.standing)},
      {key: 'seen', label: 'Last seen', number: true, cell: seen, sort: (d) => -d.last_seen_ms},
      {key: 'staleness', label: 'Staleness', number: true, cell: (d) => count(staleness(d)),
        sort: staleness},
      {key: 'step', label: 'Step time', number: true,
        cell: (d) => d.step_time_us ? duration(d.step_time_us / 1000) : '\u2013', sort: (d) => d.step_time_us},
      {key: 'counted', label: 'Counted', number: true, cell: (d) => count(d.folded + d.late),
        sort: (d) => d.folded + d.late},
      {key: 'late', label: 'Late', number: true, cell: (d) => count(d.late), sort: (d) => d.late},
      {key: 'partial', label: 'Partial', number: true, cell: (d) => count(d.partial),
        sort: (d) => d.partial},
      {key: 'board', label: 'Board', cell: (d) => d.board || '\u2013', sort: (d) => d.board},
      {key: 'firmware', label: 'Firmware', cell: (d) => d.firmware || '\u2013', sort: (d) => d.firmware},
      {key: 'arena', label: 'Arena', number: true, cell: arena,
        sort: (d) => d.arena_high_water_bytes},
      {key: 'stack', label: 'Stack', number: true,
        cell: (d) => d.stack_high_water_bytes ? memory(d.stack_high_water_bytes) : '\u2013',
        sort: (d) => d.stack_high_water_bytes},
    ], {pageSize: 20});
  }

  show(answer) {
    this.devices = answer.devices;
    this.taken = answer.time_ms;
    for (const device of this.devices) {
      device.age_ms = Math.max(0, answer.time_ms - device.last_seen_ms);
      device.version = answer.version;
    }
    this.regroup();
    if (this.open !== null) this.fillDevice(this.devices[this.open]);
  }

  regroup() {
    const key = byId('fleet-group').value;
    this.groups = groupsOf(this.devices, GROUPINGS[key]);
    if (this.chosen && !this.groups.some((group) => group.key === this.chosen)) this.chosen = null;
    this.showLegend();
    this.draw();
    this.showTable();
  }

  // Chips stay where they are while their counts change, and the focus stays on its chip where groups come and go.
  showLegend() {
    const box = byId('fleet-legend');
    const keys = this.groups.map((group) => group.key).join();
    if (box.dataset.keys !== `${byId('fleet-group').value}:${keys}`) {
      box.dataset.keys = `${byId('fleet-group').value}:${keys}`;
      const focused = document.activeElement?.dataset.group;
      box.replaceChildren(...this.groups.map((group) => {
        const mark = make('canvas', {width: 32, height: 32, class: 'mark', 'aria-hidden': 'true'});
        const chip = make('button', {type: 'button', class: 'chip', 'aria-pressed': 'false', 'data-group': group.key,
          title: group.help}, mark,
            make('span', {}, group.label), make('b'));
        chip.addEventListener('click', () => {
          this.chosen = this.chosen === group.key ? null : group.key;
          this.table.page = 0;
          this.regroup();
        });
        return chip;
      }));
      if (focused) box.querySelector(`[data-group="${CSS.escape(focused)}"]`)?.focus();
    }
    this.groups.forEach((group, i) => {
      const chip = box.children[i];
      setText(chip.querySelector('b'), count(group.devices.length));
      chip.setAttribute('aria-pressed', String(this.chosen === group.key));
      const pen = chip.querySelector('canvas').getContext('2d');
      pen.setTransform(2, 0, 0, 2, 0, 0);
      pen.clearRect(0, 0, 16, 16);
      drawCell(pen, 1, 1, 14, group.shape, group.color);
    });
  }

  draw() {
    const box = this.canvas.parentElement;
    const width = box.clientWidth;
    const total = this.devices.length;
    if (width === 0 || total === 0) return;
    let cell = CELL_MAX;
    while (cell > CELL_MIN && Math.ceil(total / Math.floor(width / cell)) * cell > HEIGHT_WANTED) --cell;
    const columns = Math.floor(width / cell);
    const height = Math.ceil(total / columns) * cell;
    const ratio = window.devicePixelRatio || 1;
    if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(height * ratio)) {
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(height * ratio);
      this.canvas.style.height = `${height}px`;
    }
    const pen = this.canvas.getContext('2d');
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    const gap = cell >= CELL_LINED ? 5 : cell >= 12 ? 3 : cell >= 8 ? 2 : 1;
    const isGrouped = byId('fleet-order').value === 'group';
    const groupOf = new Map(this.groups.flatMap((group) => group.devices.map((device) => [device, group])));
    const order = isGrouped ? this.groups.flatMap((group) => group.devices) : this.devices;
    this.cells = order;
    this.layout = {cell, columns};
    order.forEach((device, i) => {
      const group = groupOf.get(device);
      const x = (i % columns) * cell;
      const y = Math.floor(i / columns) * cell;
      pen.globalAlpha = this.chosen && this.chosen !== group.key ? 0.18 : 1;
      drawCell(pen, x, y, cell - gap, group.shape, group.color);
      if (cell >= CELL_LINED && device.asked && !device.answered && device.connected) {
        pen.fillStyle = color('ink');
        pen.fillRect(x + 2, y + cell - gap + 1.5, cell - gap - 4, 1.5);
      }
    });
    pen.globalAlpha = 1;
    const parts = this.groups.map((group) => `${count(group.devices.length)} ${group.label}`);
    this.canvas.setAttribute('aria-label', `${plural(total, 'device')} by ` +
        `${GROUPINGS[byId('fleet-group').value].label}: ${parts.join(', ')}. The table below lists them.`);
    const connected = this.devices.filter((device) => device.connected).length;
    this.tell(`${count(connected)} connected at ${clock(this.taken)}; between its tasks a device may hang up.` +
        (cell >= CELL_LINED ? ' A line under a cell: connected, and the open version waits for its answer.' : ''));
  }

  tell(sentence) {
    setText(byId('fleet-note'), sentence);
  }

  deviceAt(event) {
    if (!this.layout) return null;
    const {cell, columns} = this.layout;
    const column = Math.floor(event.offsetX / cell);
    return column < columns ? this.cells[Math.floor(event.offsetY / cell) * columns + column] ?? null : null;
  }

  point(event) {
    const device = this.deviceAt(event);
    const tip = byId('tip');
    tip.hidden = device === null;
    this.canvas.classList.toggle('over', device !== null);
    if (!device) return;
    const grouping = GROUPINGS[byId('fleet-group').value];
    const group = this.groups.find((each) => each.devices.includes(device));
    const more = grouping.value && grouping.value(device) ? grouping.form(grouping.value(device)) : group.label;
    setText(tip, `${device.device}: ${words(device.standing)}${grouping.label === 'standing' ? '' : `, ${more}`}`);
    tip.style.left = `${Math.min(event.pageX + 12, document.documentElement.clientWidth - tip.offsetWidth - 8)}px`;
    tip.style.top = `${event.pageY + 16}px`;
  }

  showTable() {
    const find = byId('fleet-find').value.trim().toLowerCase();
    const group = this.groups.find((each) => each.key === this.chosen);
    const rows = (group?.devices ?? this.devices).filter((d) => d.device.toLowerCase().includes(find));
    this.table.show(rows);
    setText(byId('fleet-count'), rows.length === this.devices.length ? plural(rows.length, 'device')
        : `${count(rows.length)} of ${plural(this.devices.length, 'device')}`);
  }

  nameCell(device, cell) {
    let button = cell.firstElementChild;
    if (!button) {
      button = make('button', {type: 'button', class: 'link'});
      button.addEventListener('click', () => this.openDevice(this.devices[Number(cell.dataset.index)]));
      cell.append(button);
    }
    cell.dataset.index = device.index;
    setText(button, device.device);
    return null;
  }

  openDevice(device) {
    if (!device) return;
    this.open = device.index;
    byId('tip').hidden = true;
    this.fillDevice(device);
    if (!byId('device').open) byId('device').showModal();
  }

  fillDevice(d) {
    setText(byId('device-name'), d.device);
    setText(byId('device-line'), `${words(d.standing)}: ${STANDINGS[d.standing]}`);
    const task = d.has_task ? `of version ${count(d.task_version)}, since ${clock(d.task_issued_ms)}` : 'none';
    const facts = [
      ['Connected', !d.connected ? 'no' : d.holds ? 'yes, and waits for the next version' : 'yes'],
      ['Seen', seen(d)],
      ['Waited for', d.awaited ? `for ${duration(d.awaited_ms)}` : 'no'],
      ['Task', task],
      ['Holds version', count(d.version_held)],
      ['Last update', lastResult(d)],
      ['Its steps', d.last_steps_asked ? `${count(d.last_steps)} of ${count(d.last_steps_asked)}` : '\u2013'],
      ['Its staleness', d.last_steps_asked ? `${plural(d.last_staleness, 'version')}, weight ` +
          figure(d.last_staleness_weight, 3) : '\u2013'],
      ['Its length', d.norm_ratio ? `${figure(d.norm_ratio, 3)} medians, ${figure(100 * d.clipped_share, 3)} % clipped` :
          '\u2013'],
      ['Its direction', d.cosine ? `cosine ${figure(d.cosine, 3)} to the step` : '\u2013'],
      ['Updates', `${count(d.folded)} in time, ${count(d.late)} late, ${count(d.partial)} of them partial`],
      ['Step time', d.step_time_us ? duration(d.step_time_us / 1000) : 'not measured'],
      ['Samples', count(d.sample_count)],
      ['Snapshots', count(d.snapshots)],
      ['Board', d.board || 'not reported'],
      ['Firmware', d.firmware || 'not reported'],
      ['Problems', d.problems ? d.problems.replaceAll(',', ', ') : 'not reported'],
      ['Lacks for the run', d.lacks ? d.lacks.replaceAll(',', ', ') : 'nothing'],
      ['Last reset', d.reset_cause === 'none' ? 'not reported' : words(d.reset_cause)],
      ['Up for', d.uptime_s ? duration(d.uptime_s * 1000) : 'not reported'],
      ['Arena high water', arena(d)],
      ['Stack high water', d.stack_high_water_bytes ? memory(d.stack_high_water_bytes) : 'not measured'],
      ['TLS high water', d.tls_high_water_bytes ? memory(d.tls_high_water_bytes) : 'not measured'],
      ['Sent, received', `${bytes(d.bytes_sent)}, ${bytes(d.bytes_received)}`],
      ['Wrong models', count(d.digest_mismatches)],
    ];
    const list = byId('device-facts');
    facts.forEach(([label, value], i) => {
      const row = list.children[i] ?? list.appendChild(make('div', {}, make('dt'), make('dd')));
      setText(row.firstElementChild, label);
      setText(row.lastElementChild, value);
    });
    const box = byId('device-command');
    if (!box.firstElementChild) box.append(makeCommand());
    showCommand(box.firstElementChild, `gradstream device ${d.active ? 'disable' : 'enable'} ${quoted(d.device)}`);
  }
}

function seen(d) {
  return d.last_seen_ms ? `${age(d.age_ms)} ago` : 'never';
}

function arena(d) {
  if (!d.arena_high_water_bytes) return '\u2013';
  return memory(d.arena_high_water_bytes) + (d.arena_bytes ? ` of ${memory(d.arena_bytes)}` : '');
}

function standingCell(device, cell) {
  let mark = cell.querySelector('.standing');
  if (!mark) {
    mark = make('span', {});
    cell.append(mark);
  }
  const name = `standing ${device.standing}`;
  if (mark.className !== name) mark.className = name;
  setText(mark, words(device.standing));
  return null;
}

// [{key, label, help, color, shape, devices}], none of them empty.
function groupsOf(devices, grouping) {
  const collect = (keyOf) => {
    const found = new Map();
    for (const device of devices) {
      const key = keyOf(device);
      if (found.has(key)) found.get(key).push(device);
      else found.set(key, [device]);
    }
    return found;
  };
  if (grouping.word) return wordGroups(collect(grouping.word));
  if (!grouping.value) {
    const found = collect((device) => device.standing);
    return Object.keys(STANDINGS).filter((key) => found.has(key)).map((key) => ({key, label: words(key),
      help: STANDINGS[key], color: color(key), shape: key, devices: found.get(key)}));
  }
  const {value, form, unknown, whole} = grouping;
  const known = devices.map(value).filter((v) => v > 0 || (whole && v === 0));
  const edges = rangesOf(known, whole);
  const found = collect((device) => {
    const v = value(device);
    return !whole && !v ? -1 : edges.findIndex((edge) => v <= edge);
  });
  const groups = edges.map((edge, i) => ({key: `r${i}`, label: i === 0 ? `up to ${form(edge)}`
      : i === edges.length - 1 ? `above ${form(edges[i - 1])}` : `to ${form(edge)}`, help: `at most ${form(edge)}`,
  color: color(`ramp-${Math.round(i * (GROUPS_MAX - 2) / Math.max(edges.length - 1, 1)) + 1}`), shape: 'in_time',
  devices: found.get(i) ?? []}));
  if (edges.length === 1) groups[0].label = form(edges[0]);
  groups.push({key: 'unknown', label: unknown ?? '', help: unknown, color: color('silent'), shape: 'silent',
    devices: found.get(-1) ?? []});
  return groups.filter((group) => group.devices.length > 0);
}

// The largest groups have colours of their own; the others share one.
function wordGroups(found) {
  const sorted = [...found].sort(([a, m], [b, n]) => n.length - m.length || a.localeCompare(b));
  const groups = sorted.slice(0, GROUPS_MAX - 1).map(([key, devices], i) => ({key: `w${key}`, label: key, help: key,
    color: color(key === 'not reported' ? 'silent' : `kind-${i + 1}`),
    shape: key === 'not reported' ? 'silent' : 'in_time', devices}));
  const rest = sorted.slice(GROUPS_MAX - 1);
  if (rest.length > 0) {
    groups.push({key: 'rest', label: plural(rest.length, 'other'), help: 'the rarer ones', color: color('quiet'),
      shape: 'in_time', devices: rest.flatMap(([, devices]) => devices)});
  }
  return groups;
}

// Upper edges of at most GROUPS_MAX - 1 ranges: by equal ratios where the values spread far, else by equal steps.
function rangesOf(values, whole) {
  if (values.length === 0) return [];
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  const steps = GROUPS_MAX - 1;
  const isWide = low > 0 && high / low > 8;
  const edges = [];
  for (let i = 1; i <= steps; ++i) {
    const edge = isWide ? low * (high / low) ** (i / steps) : low + (high - low) * i / steps;
    edges.push(i === steps ? high : whole ? Math.floor(edge) : tidy(edge));
  }
  return [...new Set(edges)].filter((edge) => edge >= low && edge <= high);
}

// Two digits are enough for an edge.
function tidy(value) {
  const unit = 10 ** (Math.floor(Math.log10(Math.max(value, 1e-9))) - 1);
  return Math.ceil(value / unit) * unit;
}

// Shapes tell standings apart without their colours. size: of the cell without its gap.
function drawCell(pen, x, y, size, shape, paint) {
  const radius = size >= 10 ? Math.min(4, size / 5) : 0;
  const line = size >= 10 ? 1.5 : 1;
  pen.fillStyle = pen.strokeStyle = paint;
  pen.lineWidth = line;
  const outline = () => {
    pen.beginPath();
    pen.roundRect(x + line / 2, y + line / 2, size - line, size - line, radius);
    pen.stroke();
  };
  const fill = () => {
    pen.beginPath();
    pen.roundRect(x, y, size, size, radius);
    pen.fill();
  };
  const strokes = (...ends) => {
    pen.beginPath();
    for (const [x1, y1, x2, y2] of ends) {
      pen.moveTo(x + x1 * size, y + y1 * size);
      pen.lineTo(x + x2 * size, y + y2 * size);
    }
    pen.stroke();
  };
  switch (shape) {
    case 'partial':
      outline();
      pen.fillRect(x + line, y + size / 2, size - 2 * line, size / 2 - line);
      break;
    case 'late':
      pen.beginPath();
      pen.moveTo(x, y + size);
      pen.lineTo(x + size / 2, y);
      pen.lineTo(x + size, y + size);
      pen.closePath();
      pen.fill();
      break;
    case 'refused':
      pen.lineWidth = Math.max(line, size / 6);
      strokes([0.15, 0.15, 0.85, 0.85], [0.85, 0.15, 0.15, 0.85]);
      break;
    case 'new':
      pen.beginPath();
      pen.arc(x + size / 2, y + size / 2, Math.max(size / 5, 1), 0, 7);
      pen.fill();
      break;
    case 'unable':
      outline();
      strokes([0.1, 0.9, 0.9, 0.1]);
      break;
    case 'silent':
      outline();
      break;
    case 'off':
      strokes([0.25, 0.5, 0.75, 0.5]);
      break;
    default:
      fill();
  }
}
