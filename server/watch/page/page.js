// The page: what the server says becomes figures, sentences and tables; whatever fails has a state of its own.
import {Attention, setCommandOptions} from './attention.js';
import {Charts} from './charts.js';
import {showDeadline, showFigures} from './figures.js';
import {Fleet} from './fleet.js';
import {Nodes} from './nodes.js';
import {Poller, hasToken, setToken} from './poll.js';
import {Commands, Model, Runs} from './runs.js';
import {PagedTable, age, byId, clock, count, duration, figure, make, plural, setText, words} from './text.js';

// Kept of a long run; beyond it every second one of the older half goes, so that the curve keeps its whole length.
const ROUNDS_MAX = 4096;
// As the server's /healthz has it: a coordinator that has said nothing for so long hangs.
const STALE_MS = 10000;

const RUN_STATES = {
  waiting: 'It waits for devices.',
  stalled: 'Too few devices answered in time; it goes on as soon as enough do.',
  paused: 'Answers to tasks that are out still count.',
  finished: 'Its last version can still be fetched.',
  stopped: 'Its last version can still be fetched.',
};

// Of an update or task: the words of server/base/refusal_catalogue.cc, which a test compares.
const REASONS = {
  protocol_version: "this server does not speak the device's protocol version",
  unknown_run: 'no such run, one that is over, or one that the device is not enrolled in',
  malformed: 'a message that does not decode, or with a field out of bounds',
  unexpected_message: 'a good message in the wrong state',
  wrong_shape: "another number of steps, directions or values than the task; of a task: the device's data lack the run's rows",
  wrong_version: 'another base version or model than the task',
  wrong_encoding: 'another encoding than the task',
  not_finite: 'values, or a loss, that are no numbers',
  out_of_range: 'a value beyond the range of the sum, or a sample that the problem never takes',
  too_few_steps: 'fewer local steps than steps_min',
  too_stale: 'more versions behind than the run allows or can correct, or its round has closed and late answers are dropped',
  corrupt: 'its checksum does not hold',
  unknown_task: 'a task that was never given to this device',
  task_unimplemented: 'the device lacks what the task names',
  newer_session: 'the same identity has connected again',
  revoked: 'the device was revoked',
  deadline: "the peer, or a measurement of the device's loss, kept this end waiting too long",
  overloaded: 'a cap on connections or memory is reached, or a claim has ended since its handshake',
  out_of_memory: 'the device has too little memory for the task',
  storage: 'the server can make nothing durable now',
  singular: 'a local step left the region where it is defined: the step is too large',
  older_update: 'an update of the same or a newer version counts already',
  no_time: 'more steps than there was time for since the task',
  rate_limit: 'more messages or handshakes than one device may make',
  inactive: 'the device is disabled, or not enabled yet',
  privacy: "the task goes below a floor of the device's owner, which the line names",
  units_refused: "the device's owner does not let the sums of its columns out",
  wrong_network: "the device holds another network than the run's, or none",
};

// Counters of peers that were turned away or not as expected, in the words of server/base/refusal_catalogue.cc; the others
// stand in the whole list.
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
  large_records: 'TLS records beyond record_size_limit, or a ClientHello beyond 2,048 bytes',
  messages_unexpected: 'messages out of turn',
  copies_refused: 'asked for the same model again and again',
  messages_over_rate: 'messages beyond device_messages_per_s_max',
  claims_refused: 'claims that let nobody in',
  key_changes_refused: 'new keys of devices that do not count',
  devices_ahead: 'devices with a model that a restored database does not have',
  journal_forked: 'devices that know records which the database does not have',
  digest_mismatches: 'devices whose model differed',
  updates_changed: 'updates sent again with other content',
  connections_over_cap: 'connections that found no place',
  handshakes_over_cap: 'connections that found no place among the handshakes',
  handshakes_over_rate: 'handshakes that a device made too often',
  balancers_refused: 'balancers without their PROXY header, and others with one',
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

const view = {status: null, devices: null, rounds: [], run: 0, heard: 0, changed: 0, failure: null};
let attention = null;
let charts = null;
let fleet = null;
let decisions = null;
let counters = null;
let parameters = null;
let model = null;
let runs = null;
let nodes = null;
let commands = null;

// ---- What the server says ------------------------------------------------------------------------------------------

const status = new Poller(() => {
  const last = view.rounds.at(-1);
  return last ? `status?after=${last.version}` : 'status';
}, onStatus);
const devices = new Poller(() => 'status/devices', onDevices);
// Asked for again when a run begins or ends.
const past = new Poller(() => 'status/runs', onRuns);

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
  view.devices = answer.data;
  fleet.show(answer.data);
  showFigures(view, serverNow());
  return true;
}

function onRuns(answer) {
  if (answer.status === 200) runs.show(answer.data.runs.filter((run) => run.number !== answer.data.served));
  return answer.status !== 200 && answer.status !== 401;
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

// Of what the server cannot say itself: [class, sentence] of each, the worst first.
function noticesOf() {
  const notices = [];
  const {status: s, failure} = view;
  if (failure) notices.push(['bad', sentenceOf(failure)]);
  if (!s || failure) return notices;
  if (Date.now() - view.changed > STALE_MS) {
    notices.push(['bad', 'The server answers, but its coordinator has said nothing new for 10 s: it hangs.']);
  }
  return notices;
}

function sentenceOf(failure) {
  if (failure.status === 0) return `The server does not answer${failure.data}.`;
  if (failure.status === 403) return `The server refuses this address: ${failure.data}.`;
  return `The server is not ready: ${failure.data.replace(/\.$/, '')}.`;
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
  if (view.failure) {
    devices.stop();
    past.stop();
    view.listed = null;
  }
  if (view.status && !view.failure) {
    showRun();
    showDecisions();
    showRefusals();
    commands.show(view.status);
    nodes.show(view.status);
    if (view.status.node) {
      devices.stop();
      past.stop();
    } else {
      charts.show(view.rounds);
      byId('progress').classList.toggle('empty', view.rounds.length === 0);
      if (!devices.wanted) devices.start();
      listRuns(view.status.run);
    }
    const isStopped = (view.status.attention ?? []).some((need) => need.level === 'stops');
    document.title = `${isStopped ? '\u26a0 ' : ''}${view.status.run.version} \u00b7 ${view.status.run.name} \u00b7 gradstream`;
  }
  beat();
}

function listRuns(run) {
  const state = `${run.number} ${run.state}`;
  if (view.listed === state) return;
  view.listed = state;
  past.start();
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
    showDeadline(view.status.run, serverNow());
  }
}

// ---- Figures --------------------------------------------------------------------------------------------------------

// The server's clock, as far as it is known here.
function serverNow() {
  return view.status.time_ms + (Date.now() - view.heard);
}

function showRun() {
  const {run, node} = view.status;
  setText(byId('run-name'), run.name);
  const state = byId('run-state');
  setText(state, run.state);
  state.className = `state ${run.state}`;
  const p = run.parameters;
  const trained = `${p.problem} on ${words(p.manifold)} ${p.rows} \u00d7 ${p.cols}`;
  setText(byId('run-line'), `Run ${run.number}: ${trained}, solver ${words(p.solver)}. ` +
      `${run.stall ? '' : RUN_STATES[run.state] ?? ''}`);
  const needs = view.status.attention ?? [];
  setCommandOptions(view.status.command_options);
  attention.show(needs);
  showFigures(view, serverNow());
  showProgress(run.progress, needs);
  model.show(run, !node);
  setText(byId('foot-line'), footOf(view.status));
}

function footOf({run, node, counters: c, started_ms: started, storage_failed: fails}) {
  const since = `up since ${new Date(started).toLocaleString('en-GB')}`;
  if (node) {
    return `Node ${node.name} of release ${node.release}, ${since}; sessions and counters are its own. Model ${run.digest}.`;
  }
  return `Server ${since}; counters and decisions are of this time. The journal ${fails ? 'fails' : 'is written'}, ` +
      `with ${plural(c.store_failures, 'failure')}. Model ${run.digest}.`;
}

// What the server judges of the run, where it judges and the box above does not say it.
function showProgress({state, text}, needs) {
  const word = words(state);
  byId('progress-line').hidden = text === '' || needs.some((need) => need.id === state);
  setText(byId('progress-line'), `${word[0].toUpperCase()}${word.slice(1)}: ${text}.`);
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
  const {refusals, counters: c, http, run, node} = view.status;
  const updates = node ? (c.updates_refused > 0 ? [['updates', c.updates_refused, 'their devices say why']] : [])
    : Object.entries(refusals).map(([key, n]) => [words(key), n, REASONS[key]]);
  const lists = [
    ['Updates and tasks', updates],
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
  attention = new Attention();
  model = new Model();
  runs = new Runs();
  nodes = new Nodes();
  commands = new Commands();
  charts = new Charts();
  fleet = new Fleet();
  decisions = new PagedTable(byId('decision-table'), 'Versions, the newest first, and why each one closed', [
    {key: 'version', label: 'Version', head: true, cell: (r) => count(r.version)},
    {key: 'time', label: 'Closed', number: true, cell: (r) => clock(r.time_ms)},
    {key: 'took', label: 'Took', number: true, cell: (r) => r.opened_ms ? duration(r.time_ms - r.opened_ms) : '\u2013'},
    {key: 'why', label: 'Why', long: true, cell: decisionOf},
    {key: 'folded', label: 'In time', number: true, cell: (r) => count(r.folded)},
    {key: 'late', label: 'Late', number: true, cell: (r) => count(r.late)},
    {key: 'partial', label: 'Partial', number: true, cell: (r) => count(r.partial)},
    {key: 'missing', label: 'Missing', long: true, cell: (r) => r.missing.replaceAll(',', ', ')},
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
