// The run in eight figures: how good its model is, how far it is, how fast, and by whom.
import {age, byId, bytes, count, duration, figure, make, plural, setText, words} from './text.js';

const LOSS_NOTE = 'of devices, before local steps';
const NONE = '\u2013';

export const isOver = (run) => run.state === 'finished' || run.state === 'stopped';

// view: {status, rounds, devices}; devices: what /status/devices last said, null before.
export function showFigures(view, now) {
  const {run, counters: c, node} = view.status;
  const round = run.round;
  if (!node) {  // no version says them
    showQuality(run);
    const last = view.rounds.at(-1);
    put('loss', 'Loss', last ? figure(last.loss_before) : NONE, last ? lossNote(view) : LOSS_NOTE);
  }
  put('version', 'Version', run.has_version ? count(run.version) : 'none yet',
      roundsNote(run), run.has_version && run.round_count > 0 ? [run.rounds_done, run.round_count] : null);
  showPace(view.status, now);
  const isBuffer = run.parameters.buffer_size > 0;
  const isCounted = round.answers !== null;  // else what the engine said last is of another version
  const answers = round.answers + (isBuffer ? round.late : 0);
  const isOpen = run.has_version && !isOver(run);
  put('round', 'Open version',
      isOpen ? `${isCounted ? count(answers) : NONE} of ${count(round.wanted)}` : NONE, roundNote(run, now),
      isOpen && isCounted ? [answers, round.wanted] : null);
  put('devices', 'Devices', count(view.status.devices.active), devicesNote(view));
  put('bytes', 'From devices', bytes(c.wire_bytes_received), `${bytes(c.wire_bytes_sent)} to them`);
}

// A round may take several versions, and the stages before training make versions without one.
function roundsNote({version, rounds_done: done, round_count: whole}) {
  if (whole === 0) return 'without an end';
  return done === version ? `of ${count(whole)}` : `round ${count(done)} of ${count(whole)}`;
}

function showQuality(run) {
  const {quality, parameters: p} = run;
  if (!quality) {
    put('quality', 'Quality', NONE, p.holdout_share > 0 && p.evaluation_period > 0 ? 'not evaluated yet'
        : 'no samples are held out');
    return;
  }
  const isShare = quality.metric === 'accuracy' || quality.metric === 'explained_variance';
  put('quality', 'Quality', isShare ? quality.text.replace('quality ', '').replace(' %', '\u00a0%')
    : figure(quality.value), `${words(quality.metric)} of version ${count(quality.version)}`);
}

function lossNote({rounds, status}) {
  const best = status.pace?.best_loss ?? null;
  return lossTrend(rounds) + (best === null ? '' : `, best ${figure(best)}`);
}

function lossTrend(rounds) {
  const past = rounds.at(-11) ?? rounds[0];
  const last = rounds.at(-1);
  const change = last.loss_before - past.loss_before;
  const isTold = last.loss_before !== null && past.loss_before !== null;
  if (past === last || !isTold || !Number.isFinite(change)) return LOSS_NOTE;
  const span = plural(last.version - past.version, 'version');
  return `${change > 0 ? '+' : ''}${figure(change, 3)} in ${span}`;
}

// Fewer than one a minute are counted by the hour or the day.
const RATES = [[1, 'a minute'], [60, 'an hour'], [1440, 'a day']];

function showPace({pace, run}, now) {
  const perMinute = pace?.versions_per_minute ?? null;
  const isMoving = perMinute > 0 && !isOver(run);
  const left = pace?.seconds_left ?? null;
  const isKnown = left !== null && !isOver(run);
  put('left', 'Done in', isKnown ? about(left) : NONE, isKnown ? `at ${clockOf(now + 1000 * left, now)}`
    : run.round_count === 0 && !isOver(run) ? 'the run has no last version' : standing(run));
  const [factor, unit] = RATES.find(([f]) => isMoving && perMinute * f >= 1) ?? RATES[isMoving ? 2 : 0];
  const rate = perMinute * factor;
  put('pace', `Versions ${unit}`, isMoving ? (rate < 100 ? figure(rate, 2) : count(Math.round(rate))) : NONE,
      isMoving ? `one in ${duration(60000 / perMinute)}` : standing(run));
}

const STANDINGS = {finished: 'the run is over', stopped: 'the run is over', paused: 'the run is paused',
  stalled: 'the run stands still', waiting: 'waits for devices'};

const standing = (run) => STANDINGS[run.state] ?? 'too early to say';

function about(seconds) {
  if (seconds < 5) return 'a moment';
  if (seconds < 55) return `about ${10 * Math.max(1, Math.round(seconds / 10))}\u00a0s`;
  if (seconds < 90 * 60) return `about ${Math.max(1, Math.round(seconds / 60))}\u00a0min`;
  if (seconds < 36 * 3600) return `about ${Math.round(seconds / 3600)}\u00a0h`;
  return `about ${count(Math.round(seconds / 86400))}\u00a0days`;
}

// With the day where it is not this one.
function clockOf(ms, now) {
  const at = new Date(ms);
  const time = at.toLocaleTimeString('en-GB', {hour: '2-digit', minute: '2-digit'});
  return at.toDateString() === new Date(now).toDateString() ? time
      : `${at.toLocaleDateString('en-GB', {day: 'numeric', month: 'short'})}, ${time}`;
}

// Connections come and go with every task: in touch is who has been heard of in time.
function devicesNote({status, devices}) {
  const {pending, disabled, revoked} = status.devices;
  const off = pending + disabled + revoked;
  const enrolled = devices?.devices.filter((device) => device.standing !== 'off') ?? [];
  const silent = enrolled.filter((device) => device.standing === 'silent').length;
  const parts = silent > 0 ? [`${count(enrolled.length - silent)} in touch`, `${count(silent)} silent`]
      : [devices && enrolled.length > 0 ? 'all in touch' : 'enrolled'];
  return [...parts, ...(off > 0 ? [`${count(off)} off`] : [])].join(', ');
}

function roundNote(run, now) {
  if (isOver(run)) return 'the run is over';
  if (!run.has_version) return 'waits for devices';
  if (run.round.deadline_ms === 0) return words(run.state);
  const left = run.round.deadline_ms - now;
  return left > 0 ? `deadline in ${age(left)}` : 'at its deadline';
}

// Between two answers of the server.
export function showDeadline(run, now) {
  const note = byId('figures').querySelector('[data-figure=round] .note');
  if (note) setText(note, roundNote(run, now));
}

// bar: [part, whole], null for none.
function put(key, label, value, note, bar = null) {
  const list = byId('figures');
  let box = list.querySelector(`[data-figure=${key}]`);
  if (!box) {
    box = make('div', {'data-figure': key}, make('dt'), make('dd', {class: 'value'}), make('dd', {class: 'note'}),
        make('dd', {class: 'bar', 'aria-hidden': 'true'}, make('span')));
    list.append(box);
  }
  setText(box.querySelector('dt'), label);
  setText(box.querySelector('.value'), value);
  setText(box.querySelector('.note'), note);
  const line = box.querySelector('.bar');
  line.hidden = !bar;
  if (bar) line.firstElementChild.style.width = `${Math.min(100, 100 * bar[0] / Math.max(bar[1], 1))}%`;
}
