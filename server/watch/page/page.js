// The page: what the server says becomes figures, sentences and tables; whatever fails has a state of its own.
import {Charts} from './charts.js';
import {Fleet} from './fleet.js';
import {Poller, hasToken, setToken} from './poll.js';
import {PagedTable, age, byId, bytes, clock, count, duration, figure, make, plural, setText, words} from './text.js';

// Kept of a long run; beyond it every second one of the older half goes, so that the curve keeps its whole length.
const ROUNDS_MAX = 4096;
// As the server's /healthz has it: a coordinator that has said nothing for so long hangs.
const STALE_MS = 10000;

const LOSS_NOTE = 'of devices, before local steps';

const RUN_STATES = {
  waiting: 'It waits for devices.',
  stalled: 'Too few devices answered in time; it goes on as soon as enough do.',
  paused: 'Answers to tasks that are out still count.',
  finished: 'Its last version can still be fetched.',
  stopped: 'Its last version can still be fetched.',
};

// What the server judges of the run's progress, with how a notice of it looks; null: no notice.
const PROGRESS = {
  starting: null,
  watching: null,
  settled: null,
  still_falling: null,
  not_improving: 'warn',
  diverged: 'bad',
};

// Of an update or task, as docs/wire.md has them.
const REASONS = {
  too_stale: 'more versions behind than the run allows, or late updates are dropped',
  too_few_steps: 'fewer local steps than steps_min',
  no_time: 'more steps than there was time for since the task',
  not_finite: 'values, or a loss, that are no numbers',
  out_of_range: 'a value beyond the range of the sum',
  wrong_shape: 'another shape than the task',
  wrong_version: 'another base version than the task',
  wrong_encoding: 'another encoding than the task',
  corrupt: 'its checksum does not hold',
  unknown_task: 'a task that was never given to this device',
  older_update: 'an update of the same or a newer version counts already',
  task_unimplemented: 'the device lacks what the task names',
  out_of_memory: 'the device has too little memory for the task',
  singular: 'a local step left the region where it is defined: the step is too large',
};

// Counters of peers that were turned away or not as expected, as docs/operating.md explains them; the others stand in
// the whole list.
const PEERS = {
  unknown_identities: 'names that nobody enrolled',
  revoked_identities: 'revoked devices',
  inactive_identities: 'pending or disabled devices',
  wrong_keys: 'another key than the enrolled one',
  expired_keys: 'a key whose rotation window is over',
  certificates_expired: 'certificates whose time is over',
  certificates_early: 'certificates whose time has not come',
  certificates_foreign: 'certificates of another CA',
  certificates_misused: 'certificates that are not for clients',
  certificates_unnamed: 'certificates that name no device',
  certificates_unusable: 'certificates that cannot be read or proven, or none',
  registrations_refused: 'unknown devices with a certificate that were not enrolled',
  plain_text_peers: 'no TLS',
  tls_version_peers: 'no TLS 1.3',
  tls_other_faults: 'handshakes that failed otherwise',
  malformed_frames: 'bytes that are no message',
  large_records: 'TLS records beyond record_size_limit',
  messages_unexpected: 'messages out of turn',
  copies_refused: 'asked for the same model again and again',
  messages_over_rate: 'messages beyond device_messages_per_s_max',
  claims_refused: 'claims that let nobody in',
  devices_ahead: 'devices with a model that a restored database does not have',
  digest_mismatches: 'devices whose model differed',
  updates_changed: 'updates sent again with other content',
  connections_over_cap: 'connections above connection_count_max',
  handshakes_over_cap: 'handshakes above handshake_count_max',
  handshakes_over_rate: 'handshakes that a device made too often',
  signatures_over_rate: 'handshakes without a key that waited for a signature',
  sessions_overloaded: 'peers that read too slowly',
  sessions_replaced: 'sessions that a newer one of the same device ended',
  greetings_replaced: 'sessions without a Hello that a newer one of the same device ended',
  deadline_handshake: 'handshakes that took too long',
  deadline_hello: 'no Hello in time',
  deadline_frame: 'messages that took too long',
  deadline_write: 'peers that took nothing in time',
  deadline_idle: 'silence beyond session_idle_max_ms',
  deadline_close: 'peers that did not close in time',
};

const view = {status: null, rounds: [], run: 0, heard: 0, changed: 0, failure: null};
let charts = null;
let fleet = null;
let decisions = null;
let counters = null;
let parameters = null;

// ---- What the server says ------------------------------------------------------------------------------------------

const status = new Poller(() => {
  const last = view.rounds.at(-1);
  return last ? `status?after=${last.version}` : 'status';
}, onStatus);
const devices = new Poller(() => 'status/devices', onDevices);

function onStatus(answer) {
  if (answer.status === 401) {
    askForToken();
    return false;
  }
  view.failure = answer.status === 200 ? null : answer;
  const next = view.failure || take(answer.data) ? true : 'now';
  show();
  return next;
}

function onDevices(answer) {
  if (answer.status !== 200) {
    fleet.tell('The list of devices did not come' + (answer.status === 0 ? `${answer.data}.` : `: ${answer.data}.`));
    return answer.status !== 401;
  }
  byId('fleet').hidden = answer.data.devices.length === 0;
  fleet.show(answer.data);
  return true;
}

// False: what came before is of no use any more, and not all versions came with this.
function take(data) {
  const isAnother = view.run !== data.run.number || view.status?.started_ms !== data.started_ms;
  const isOlder = data.run.version < (view.rounds.at(-1)?.version ?? 0);
  const isNew = view.status !== null && (isAnother || isOlder);  // a run or server whose versions begin anew
  const wasAsked = isNew && view.rounds.length > 0;
  if (isNew) view.rounds = [];
  if (view.status?.time_ms !== data.time_ms) view.changed = Date.now();
  view.run = data.run.number;
  view.status = data;
  view.heard = Date.now();
  const last = view.rounds.at(-1)?.version ?? 0;
  view.rounds.push(...data.rounds.filter((round) => round.version > last));
  if (view.rounds.length > ROUNDS_MAX) {
    const half = ROUNDS_MAX / 2;
    view.rounds = view.rounds.filter((_, i) => i >= half || i % 2 === 0);
  }
  return !wasAsked;
}

// ---- States of the page --------------------------------------------------------------------------------------------

function askForToken() {
  devices.stop();
  byId('content').hidden = byId('sections').hidden = byId('retry').hidden = true;
  byId('notices').replaceChildren();
  byId('access').hidden = false;
  byId('access-plain').hidden = window.isSecureContext;
  const isWrong = hasToken();
  setText(byId('token-problem'), isWrong ? 'The server refused this token: it is not the line of its token file.' : '');
  byId('token').setAttribute('aria-invalid', String(isWrong));
  setText(byId('freshness'), 'waits for a token');
  byId('beat').className = '';
  setToken('');
  byId('token').select();
  byId('token').focus();
}

function useToken(event) {
  event.preventDefault();
  const token = byId('token').value.trim();
  if (!token) {
    setText(byId('token-problem'), 'Type the token first.');
    return;
  }
  setToken(token);
  byId('access').hidden = true;
  setText(byId('freshness'), 'connecting');
  status.start();
}

// [class, sentence] of each, the worst first.
function noticesOf() {
  const notices = [];
  const {status: s, failure} = view;
  if (failure) notices.push(['bad', sentenceOf(failure)]);
  if (!s || failure) return notices;
  if (Date.now() - view.changed > STALE_MS) {
    notices.push(['bad', 'The server answers, but its coordinator has said nothing new for 10 s: it hangs.']);
  }
  if (s.database_fault) notices.push(['bad', sentenceOf(s.database_fault)]);
  if (s.storage_failed && !s.database_fault) {
    notices.push(['bad', 'The database cannot be written. Devices are told to try later, and nothing acknowledged is ' +
        'lost. Free space or repair the disk: the server goes on by itself.']);
  }
  const progress = s.run.progress;
  if (progress && PROGRESS[progress.state]) {
    notices.push([PROGRESS[progress.state], `${words(progress.state)}: ${progress.text}. To do: ${progress.remedy}.`]);
  }
  if (s.draining) notices.push(['warn', 'The server drains: devices are told when to come back, and it ends.']);
  if (!s.run.has_version && s.run.state !== 'finished' && s.run.state !== 'stopped') {
    const wanted = s.run.parameters.device_count;
    notices.push(['warn', s.devices.active < wanted
        ? `No version yet: ${count(s.devices.active)} of ${plural(wanted, 'device')} enrolled. Add one with: ` +
          'gradstream device add NAME --out NAME.identity'
        : 'No version yet: the first one is on its way to the disk.']);
  } else if (s.devices.active > 0 && s.run.version === 0 && s.counters.sessions_established === 0) {
    notices.push(['warn', 'No device has connected yet. On its side, gradstream doctor HOST:PORT names the cause.']);
  }
  return notices;
}

function sentenceOf(failure) {
  if (failure.status === 0) return `The server does not answer${failure.data}.`;
  if (failure.status === 403) return `The server refuses this address: ${failure.data}.`;
  return `The server is not ready: ${failure.data}.`;
}

function show() {
  const notices = noticesOf();
  const text = JSON.stringify(notices);
  if (byId('notices').dataset.text !== text) {
    byId('notices').dataset.text = text;
    byId('notices').replaceChildren(...notices.map(([kind, sentence]) =>
        make('p', {class: `notice ${kind}`}, sentence)));
  }
  byId('retry').hidden = !view.failure;
  byId('content').hidden = byId('sections').hidden = !view.status;
  byId('content').classList.toggle('old', Boolean(view.failure));
  byId('access').hidden = true;
  byId('forget').hidden = !hasToken();
  if (view.failure) devices.stop();
  if (view.status && !view.failure) {
    showRun();
    showDecisions();
    showRefusals();
    charts.show(view.rounds);
    byId('progress').classList.toggle('empty', view.rounds.length === 0);
    if (!devices.wanted) devices.start();
    document.title = `${view.status.run.version} \u00b7 ${view.status.run.name} \u00b7 gradstream`;
  }
  beat();
}

// Every second: how old what is shown is, and when the next attempt comes.
function beat() {
  const passed = Date.now() - view.heard;
  if (view.failure) {
    const left = Math.max(0, Math.ceil((status.due - Date.now()) / 1000));
    const old = view.status ? `What stands below is ${age(passed)} old. ` : '';
    setText(byId('retry-text'), `${old}Next attempt in ${left} s.`);
    setText(byId('freshness'), 'no answer');
    byId('beat').className = 'bad';
  } else if (view.status) {
    const isStale = Date.now() - view.changed > STALE_MS;
    setText(byId('freshness'), isStale ? 'hangs' : passed < 4000 ? 'live' : `${age(passed)} old`);
    byId('beat').className = isStale ? 'bad' : 'good';
    showDeadline();
  }
}

// ---- Figures --------------------------------------------------------------------------------------------------------

// The server's clock, as far as it is known here.
function serverNow() {
  return view.status.time_ms + (Date.now() - view.heard);
}

const isOver = (run) => run.state === 'finished' || run.state === 'stopped';

function showRun() {
  const {run, devices: enrolled, counters: c, started_ms: started} = view.status;
  setText(byId('run-name'), run.name);
  const state = byId('run-state');
  setText(state, run.state);
  state.className = `state ${run.state}`;
  const p = run.parameters;
  const model = `${p.problem} on ${words(p.manifold)} ${p.rows} \u00d7 ${p.cols}`;
  const standing = run.stall ? `${run.stall.text}. To do: ${run.stall.remedy}.` : RUN_STATES[run.state] ?? '';
  setText(byId('run-line'), `Run ${run.number}: ${model}, solver ${words(p.solver)}. ${standing}`);
  const last = view.rounds.at(-1);
  const round = run.round;
  const isBuffer = p.buffer_size > 0;
  const answers = round.answers + (isBuffer ? round.late : 0);
  const gone = enrolled.pending + enrolled.disabled + enrolled.revoked;
  put('version', 'Version', run.has_version ? count(run.version) : 'none yet', `of ${count(run.round_count)}`,
      run.has_version ? [run.version, run.round_count] : null);
  put('loss', 'Loss', last ? figure(last.loss_before) : '\u2013', last ? lossTrend() : LOSS_NOTE);
  put('progress', 'Progress', words(run.progress.state), run.progress.promise_ratio > 0
      ? `promised ${figure(run.progress.promise_ratio, 3)} times its gain` : 'too early to say');
  if (run.quality) {
    const isShare = run.quality.metric === 'accuracy' || run.quality.metric === 'explained_variance';
    put('quality', 'Quality', isShare ? run.quality.text.replace('quality ', '') : figure(run.quality.value),
        `${words(run.quality.metric)} of version ${count(run.quality.version)}, ` +
        `${plural(run.quality.samples, 'sample')} held out`);
  }
  const isOpen = run.has_version && !isOver(run);
  put('round', 'Open version', isOpen ? `${count(answers)} of ${count(round.wanted)}` : '\u2013', '',
      isOpen ? [answers, round.wanted] : null);
  put('devices', 'Devices', count(enrolled.active), `${count(view.status.sessions)} connected` +
      (gone ? `, ${count(gone)} off` : ''));
  put('bytes', 'From devices', bytes(c.wire_bytes_received), `${bytes(c.wire_bytes_sent)} to them`);
  put('storage', 'Storage', view.status.storage_failed ? 'failing' : 'writing',
      `${plural(c.store_failures, 'failure')}${view.status.draining ? ', draining' : ''}`);
  showDeadline();
  setText(byId('foot-line'), `Server up since ${new Date(started).toLocaleString('en-GB')}; model ${run.digest}; ` +
      `counters and decisions are of this time.`);
}

function lossTrend() {
  const past = view.rounds.at(-11) ?? view.rounds[0];
  const last = view.rounds.at(-1);
  const change = last.loss_before - past.loss_before;
  const isTold = last.loss_before !== null && past.loss_before !== null;
  if (past === last || !isTold || !Number.isFinite(change)) return LOSS_NOTE;
  const span = plural(last.version - past.version, 'version');
  return `${change > 0 ? '+' : ''}${figure(change, 3)} in ${span}`;
}

function showDeadline() {
  const {run} = view.status;
  const left = run.round.deadline_ms - serverNow();
  const timed = left > 0 ? `deadline in ${age(left)}` : 'at its deadline';
  const note = isOver(run) ? 'the run is over' : !run.has_version ? 'waits for devices'
      : run.round.deadline_ms === 0 ? words(run.state) : timed;
  const element = byId('figures').querySelector('[data-figure=round] .note');
  if (element) setText(element, note);
}

// bar: [part, whole], null for none.
function put(key, label, value, note, bar) {
  const list = byId('figures');
  let box = list.querySelector(`[data-figure=${key}]`);
  if (!box) {
    box = make('div', {'data-figure': key}, make('dt', {}, label), make('dd', {class: 'value'}),
        make('dd', {class: 'note'}), make('dd', {class: 'bar', 'aria-hidden': 'true'}, make('span')));
    list.append(box);
  }
  setText(box.querySelector('.value'), value);
  if (key !== 'round') setText(box.querySelector('.note'), note);
  const line = box.querySelector('.bar');
  line.hidden = !bar;
  if (bar) line.firstElementChild.style.width = `${Math.min(100, 100 * bar[0] / Math.max(bar[1], 1))}%`;
}

// ---- The straggler policy -------------------------------------------------------------------------------------------

function policyOf(p) {
  const deadline = duration(p.report_deadline_ms);
  const all = p.update_goal === 0 && p.over_selection <= 1;
  const goal = all ? 'every device that is asked has' : `${count(p.update_goal || p.cohort_size)} devices have`;
  const least = p.update_min > 0 ? `, or after ${deadline} with at least ${count(p.update_min)}. With fewer it`
      : `. With fewer after ${deadline} it`;
  const every = p.buffer_size === 1 ? 'every accepted update' : `every ${count(p.buffer_size)} accepted updates`;
  const times = p.extension_count_max === 1 ? 'once' : `${count(p.extension_count_max)} times`;
  const trigger = p.buffer_size > 0
      ? `A version closes with ${every}, whatever version they began at, or after ${deadline} with what is there.`
      : `A round closes when ${goal} answered${least} is extended, at most ${times}; then it stalls and waits.`;
  const late = p.late === 'drop' ? 'An update of an older version is refused.'
      : `An update of an older version counts less the older it is (${words(p.staleness_table)}), up to ` +
        `${plural(p.staleness_max, 'version')}.`;
  const isPartial = p.steps_min > 0 && p.steps_min < p.local_step_count;
  const partial = isPartial ? `Partial work counts from ${plural(p.steps_min, 'local step')} on` +
        (p.task_deadline_ms ? `; devices send what they have after ${duration(p.task_deadline_ms)}.` : '.')
      : `Only all ${plural(p.local_step_count, 'local step')} count.`;
  const work = p.work === 'timed' ? 'Each device is asked for as many steps as it has time for, by its own step time.'
      : `Every device is asked for ${plural(p.local_step_count, 'step')}.`;
  const cap = `One device is at most ${figure(100 * p.weight_share_max, 3)} % of a version.`;
  return [trigger, late, partial, work, ...(p.weight_share_max < 1 ? [cap] : [])];
}

function decisionOf(round) {
  const isBuffer = view.status.run.parameters.buffer_size > 0;
  const counted = round.folded + (isBuffer ? round.late : 0);
  const extended = round.extensions ? `, after ${plural(round.extensions, 'extension')}` : '';
  switch (round.trigger) {
    case 'goal':
      return isBuffer ? `${plural(counted, 'update')} filled it` + extended
          : counted >= round.asked ? `all ${count(round.asked)} answered${extended}`
          : `${count(counted)} of ${count(round.asked)} answered: the goal${extended}`;
    case 'deadline':
      return `deadline with ${count(counted)}; ${count(round.wanted)} were enough${extended}`;
    case 'stall_ended':
      return `enough answers ended its stall`;
    default:
      return words(round.trigger);
  }
}

function showDecisions() {
  const p = view.status.run.parameters;
  const policy = policyOf(p);
  const list = byId('policy');
  policy.forEach((sentence, i) => setText(list.children[i] ?? list.appendChild(make('li')), sentence));
  decisions.show(view.rounds.filter((round) => round.asked > 0).reverse());  // the server's own
}

// ---- Refusals and counters ------------------------------------------------------------------------------------------

function showRefusals() {
  const {refusals, counters: c, http, run} = view.status;
  const lists = [
    ['Updates and tasks', Object.entries(refusals).map(([key, n]) => [words(key), n, REASONS[key]])],
    ['Peers of the device port', Object.entries(PEERS).filter(([key]) => c[key] > 0)
        .map(([key, help]) => [words(key), c[key], help])],
    ['Requests to this page\u2019s port', Object.entries(http.refusals).filter(([, n]) => n > 0)
        .map(([key, n]) => [words(key), n, ''])],
  ];
  const text = JSON.stringify(lists);
  const box = byId('refusal-lists');
  if (box.dataset.text !== text) {
    box.dataset.text = text;
    box.replaceChildren(...lists.map(([title, rows]) => make('div', {}, make('h3', {}, title),
        rows.length === 0 ? make('p', {class: 'quiet'}, 'none')
          : make('ul', {class: 'tally'}, ...rows.sort((a, b) => b[1] - a[1]).map(([label, n, help]) =>
              make('li', {}, make('b', {}, count(n)), make('span', {}, label, make('small', {}, help ?? ''))))))));
  }
  counters.show(Object.entries(c));
  parameters.show(Object.entries(run.parameters));
}

// ---- Begin ----------------------------------------------------------------------------------------------------------

function begin() {
  charts = new Charts();
  fleet = new Fleet();
  decisions = new PagedTable(byId('decision-table'), 'Versions, the newest first, and why each one closed', [
    {key: 'version', label: 'Version', head: true, cell: (r) => count(r.version)},
    {key: 'time', label: 'Closed', number: true, wide: true, cell: (r) => clock(r.time_ms)},
    {key: 'took', label: 'Took', number: true, cell: (r) => r.opened_ms ? duration(r.time_ms - r.opened_ms) : '\u2013'},
    {key: 'why', label: 'Why', cell: decisionOf},
    {key: 'folded', label: 'In time', number: true, wide: true, cell: (r) => count(r.folded)},
    {key: 'late', label: 'Late', number: true, wide: true, cell: (r) => count(r.late)},
    {key: 'partial', label: 'Partial', number: true, wide: true, cell: (r) => count(r.partial)},
    {key: 'missing', label: 'Missing', wide: true, cell: (r) => r.missing.replaceAll(',', ', ')},
  ]);
  const pair = (label) => [
    {key: 'name', label, head: true, cell: ([key]) => key, sort: ([key]) => key},
    {key: 'value', label: 'Value', number: true, cell: ([, v]) => typeof v === 'number' ? v.toLocaleString('en',
        {maximumFractionDigits: 9}) : String(v) || '\u2013', sort: ([, v]) => String(v)},
  ];
  counters = new PagedTable(byId('counter-table'), 'Counters', pair('Counter'), {pageSize: 60});
  parameters = new PagedTable(byId('parameter-table'), 'Parameters', pair('Parameter'), {pageSize: 90});
  byId('access-form').addEventListener('submit', useToken);
  byId('retry-now').addEventListener('click', () => status.start());
  byId('forget').addEventListener('click', () => {
    setToken('');
    location.reload();
  });
  setInterval(beat, 1000);
  status.start();
}

begin();
