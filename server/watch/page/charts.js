// The curves of the run: one metric of its versions against time, versions or bytes, and the same as a table.
import {PagedTable, byId, bytes, clock, color, count, duration, figure, make, setText, tick} from './text.js';

const HEIGHT = 300;
const OPTIMUM_KEY = 'gradstream.optimum';

const METRICS = {
  loss: {
    label: 'loss',
    form: figure,
    tick,
    series: [
      {label: 'before local steps', color: 'curve-1', of: (r) => r.loss_before},
      {label: 'after them', color: 'curve-2', dash: [5, 4], of: (r) => r.loss_after},
    ],
  },
  quality: {
    label: 'quality on samples held out',
    form: figure,
    tick,
    series: [{label: 'of the version before', color: 'curve-1', of: (r) => r.quality?.value ?? null}],
  },
  gap: {
    label: 'gap to the optimum',
    form: figure,
    tick,
    log: true,
    series: [{label: 'loss before local steps, less F*', color: 'curve-1',
      of: (r, optimum) => r.loss_before === null || optimum === null ? null : r.loss_before - optimum}],
  },
  answers: {
    label: 'updates of a version',
    form: count,
    series: [
      {label: 'in time', color: 'in_time', of: (r) => r.folded},
      {label: 'late', color: 'late', dash: [5, 4], of: (r) => r.late},
      {label: 'partial', color: 'curve-2', dash: [2, 3], of: (r) => r.partial},
      {label: 'asked', color: 'quiet', dash: [1, 4], of: (r) => r.asked},
    ],
  },
  bytes: {
    label: 'bytes of a version',
    form: bytes,
    log: true,
    series: [
      {label: 'updates, as encoded', color: 'curve-1', of: (r) => r.upload_bytes},
      {label: 'its record', color: 'curve-2', dash: [5, 4], of: (r) => r.record_bytes},
    ],
  },
  duration: {
    label: 'time of a version',
    form: duration,
    log: true,
    series: [{label: 'from its opening to its end', color: 'curve-1',
      of: (r) => r.opened_ms ? r.time_ms - r.opened_ms : null}],
  },
};

const AXES = {
  time: {of: (r) => r.time_ms / 1000, time: true, form: (s) => clock(s * 1000),
    tick: (s, step) => step < 60 ? clock(s * 1000) : step < 86400 ? clock(s * 1000).slice(0, 5)
        : new Date(s * 1000).toLocaleDateString('en-GB', {day: 'numeric', month: 'short'})},
  version: {of: (r) => r.version, form: (v) => `version ${count(v)}`, tick: count},
  // Of the server's own time: what the wire had carried to older versions stands nowhere.
  bytes: {since: (r) => r.wire_bytes_received > 0, of: (r) => r.wire_bytes_received + r.wire_bytes_sent,
    form: (b) => `${bytes(b)} on the wire`, tick: bytes},
};

export class Charts {
  constructor() {
    this.rounds = this.drawn = [];  // all, and those that have a place on the axis
    this.plot = null;
    this.box = byId('chart');
    for (const [key, metric] of Object.entries(METRICS)) {
      byId('chart-metric').append(make('option', {value: key}, metric.label));
    }
    try {
      byId('optimum').value = localStorage.getItem(OPTIMUM_KEY) ?? '';
    } catch { /* not kept */ }
    byId('chart-form').addEventListener('input', () => this.rebuild());
    byId('chart-form').addEventListener('submit', (event) => event.preventDefault());
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.rebuild());
    new ResizeObserver(() => this.plot?.setSize({width: this.box.clientWidth, height: HEIGHT})).observe(this.box);
    this.table = new PagedTable(byId('chart-table'), 'Versions and what they report', [
      {key: 'version', label: 'Version', head: true, cell: (r) => count(r.version),
        sort: (r) => r.version},
      {key: 'time', label: 'Made', number: true, cell: (r) => clock(r.time_ms), sort: (r) => r.time_ms},
      {key: 'before', label: 'Loss before', number: true, cell: (r) => figure(r.loss_before),
        sort: (r) => r.loss_before},
      {key: 'after', label: 'Loss after', number: true, cell: (r) => figure(r.loss_after),
        sort: (r) => r.loss_after},
      {key: 'bytes', label: 'Update bytes', number: true, cell: (r) => count(r.upload_bytes),
        sort: (r) => r.upload_bytes},
      {key: 'wire', label: 'Wire so far', number: true, sort: AXES.bytes.of,
        cell: (r) => AXES.bytes.since(r) ? bytes(AXES.bytes.of(r)) : '\u2013'},
    ], {sortKey: 'version', descending: true});
    if (!window.uPlot) {
      setText(this.box, 'This server was built without uPlot: there are no curves, the table has their values.');
      this.box.className = 'no-chart';
      this.box.removeAttribute('role');
      this.box.removeAttribute('aria-label');
      byId('chart-table-box').open = byId('chart-form').hidden = true;
    }
  }

  show(rounds) {
    this.rounds = rounds;
    this.table.show(rounds);
    if (this.plot) this.refresh();
    else this.rebuild();
  }

  choice() {
    const metric = METRICS[byId('chart-metric').value];
    const axis = AXES[document.querySelector('input[name=axis]:checked').value];
    const typed = byId('optimum').value.trim().replace(/^[\u2212\u2013]/, '-').replace(',', '.');
    const optimum = typed === '' || !Number.isFinite(Number(typed)) ? null : Number(typed);
    const isLog = Boolean(metric.log) && byId('log-scale').checked;
    return {metric, axis, optimum, isGap: metric === METRICS.gap, isLog};
  }

  data() {
    const {metric, axis, optimum, isLog} = this.choice();
    const usable = (value) => value === null || !Number.isFinite(value) || (isLog && value <= 0) ? null : value;
    const drawn = this.drawn = axis.since ? this.rounds.filter(axis.since) : this.rounds;
    return [drawn.map(axis.of), ...metric.series.map((s) => drawn.map((r) => usable(s.of(r, optimum))))];
  }

  // After another choice: uPlot's scales are fixed when it is made.
  rebuild() {
    const {metric, axis, isGap, isLog} = this.choice();
    byId('optimum-label').hidden = byId('optimum-help').hidden = !isGap;
    byId('log-label').hidden = !metric.log;
    try {
      localStorage.setItem(OPTIMUM_KEY, byId('optimum').value);
    } catch { /* not kept */ }
    this.plot?.destroy();
    this.plot = null;
    if (!window.uPlot || this.rounds.length === 0) {
      byId('chart-legend').replaceChildren();
      return;
    }
    const lines = {stroke: color('quiet'), grid: {stroke: color('line'), width: 1}, ticks: {show: false}, gap: 8,
      font: `12px ${getComputedStyle(document.body).fontFamily}`};
    const ticks = (_, values, __, ___, step) => values.map((v) => axis.tick(v, step));
    const level = metric.tick ?? metric.form;
    const levels = (_, values) => values.map((v) => v === null ? '' : level(v));
    this.plot = new window.uPlot({
      width: this.box.clientWidth,
      height: HEIGHT,
      padding: [8, 24, 0, 0],
      legend: {show: false},
      cursor: {drag: {x: true, y: false}, points: {size: 7}},
      scales: {x: {time: Boolean(axis.time)}, y: isLog ? {distr: 3} : {}},
      axes: [
        {...lines, grid: {show: false}, values: ticks},
        {...lines, size: 68, values: levels},
      ],
      series: [{}, ...metric.series.map((s) => ({label: s.label, stroke: color(s.color), width: 2, dash: s.dash,
        points: {show: this.rounds.length < 3}}))],
      // Values that come in leave a part that somebody looks at as it is, until a double click shows all again.
      hooks: {setCursor: [() => this.tellValues()], setSelect: [(plot) => { this.isZoomed = plot.select.width > 0; }]},
    }, this.data(), this.box);
    this.values = metric.series.map((s) => {
      const sample = make('span', {class: s.dash ? 'sample dashed' : 'sample'});
      sample.style.borderTopColor = color(s.color);
      const value = make('b');
      return {value, line: make('span', {}, sample, ` ${s.label} `, value)};
    });
    this.at = make('span', {class: 'quiet'});
    byId('chart-legend').replaceChildren(...this.values.map((v) => v.line), this.at);
    this.isZoomed = false;
    this.plot.over.addEventListener('dblclick', () => { this.isZoomed = false; });
    this.tellValues();
  }

  refresh() {
    this.plot.setData(this.data(), !this.isZoomed);
    if (this.isZoomed) this.plot.redraw();
    this.tellValues();
  }

  // At the cursor, else the newest.
  tellValues() {
    if (!this.plot || !this.values) return;
    const {metric, axis} = this.choice();
    const [xs, ...columns] = this.plot.data;
    const last = xs.length - 1;
    if (last < 0) return;  // nothing since the server's start
    const at = this.plot.cursor.idx ?? last;
    columns.forEach((column, i) => setText(this.values[i].value, metric.form(column[at])));
    setText(this.at, `${at === last ? 'newest: ' : ''}${axis.form(xs[at])}`);
    const first = metric.series[0];
    this.box.setAttribute('aria-label', `Chart of ${metric.label}, ${first.label}: ${metric.form(columns[0][0])} at ` +
        `version ${count(this.drawn[0].version)}, ${metric.form(columns[0][last])} at version ` +
        `${count(this.drawn[last].version)}. The table below has the values.`);
  }
}
