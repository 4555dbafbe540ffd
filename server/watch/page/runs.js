// The model to take away, the runs before this one, and the commands that an operator may want.
import {makeCommand, showCommand} from './attention.js';
import {isOver} from './figures.js';
import {getFile, hasToken} from './poll.js';
import {PagedTable, byId, bytes, count, figure, make, setText, words} from './text.js';

const MODEL_PATH = 'status/model.npz';
const MODEL_BYTES_MAX = 64 * 2 ** 20;  // as server/program/model_download.h has it

const day = (ms) => ms > 0 ? new Date(ms).toLocaleString('en-GB', {day: 'numeric', month: 'short', year: 'numeric',
  hour: '2-digit', minute: '2-digit'}) : '\u2013';

export class Model {
  constructor() {
    this.link = byId('model-link');
    this.link.addEventListener('click', (event) => this.take(event));
  }

  // isGiven: whether the server gives it.
  show(run, isGiven) {
    byId('model').hidden = !run.has_version || !isGiven;
    if (!run.has_version || !isGiven) return;
    const isLarge = run.model_bytes > MODEL_BYTES_MAX;
    this.link.hidden = isLarge;
    this.link.setAttribute('download', `run${run.number}_v${run.version}.npz`);
    if (this.isBusy) return;
    setText(byId('model-note'), isLarge ? `The model has ${bytes(run.model_bytes)}: take it with the command below.`
      : `npz of version ${count(run.version)}, ${bytes(run.model_bytes)} of numbers`);
  }

  // A link carries no token, so the page fetches what it leads to and hands it to the browser.
  async take(event) {
    if (!hasToken()) return;
    event.preventDefault();
    if (this.isBusy) return;
    this.isBusy = true;
    setText(byId('model-note'), 'Fetching\u2026');
    const {status, data} = await getFile(MODEL_PATH);
    if (status === 200) {
      const address = URL.createObjectURL(data);
      const link = make('a', {href: address, download: this.link.getAttribute('download')});
      link.click();
      setTimeout(() => URL.revokeObjectURL(address), 60000);
      setText(byId('model-note'), `Fetched, ${bytes(data.size)}`);
    } else {
      setText(byId('model-note'), status === 0 ? `No answer${data}.` : `Not fetched: ${data}`);
    }
    setTimeout(() => { this.isBusy = false; }, 3000);
  }
}

export class Runs {
  constructor() {
    this.table = new PagedTable(byId('run-table'), 'Past runs of this server, the newest first', [
      {key: 'number', label: 'Run', number: true, cell: (r) => count(r.number)},
      {key: 'name', label: 'Name', head: true, cell: (r) => r.name},
      {key: 'state', label: 'State', cell: (r) => words(r.state)},
      {key: 'versions', label: 'Versions', number: true, cell: (r) => count(r.versions)},
      {key: 'result', label: 'Result', number: true, cell: resultOf},
      {key: 'problem', label: 'Problem', cell: (r) => words(r.problem)},
      {key: 'began', label: 'Began', cell: (r) => day(r.began_ms)},
      {key: 'ended', label: 'Ended', cell: (r) => day(r.ended_ms)},
    ]);
  }

  show(runs) {
    byId('run-table').hidden = runs.length === 0;
    byId('run-none').hidden = runs.length > 0;
    this.table.show(runs.slice().sort((a, b) => b.number - a.number));
  }
}

// The quality where samples were held out, else the last loss.
function resultOf(run) {
  if (run.quality) return run.quality;
  return Number.isFinite(run.loss) ? `loss ${figure(run.loss)}` : '\u2013';
}

const OF_NODES = [
  ['Show the engine, the run and all nodes', 'gradstream engine status'],
  ['Check the engine\u2019s server and its standby', 'gradstream engine doctor'],
  ['Enrol a device, and write its identity file', 'gradstream device add NAME --out NAME.identity'],
  ['Say why a device cannot connect, from its side', 'gradstream doctor HOST:PORT'],
  ['Bring the run back into a database, once no node serves it', 'gradstream engine export --to fleet.db'],
];

export class Commands {
  constructor() {
    this.rows = new Map();
  }

  show({run, node}) {
    const wanted = node ? OF_NODES : [
      ['Enrol a device, and write its identity file', 'gradstream device add NAME --out NAME.identity'],
      ['Let a batch of devices enrol themselves', 'gradstream claim add BATCH --out BATCH.identity --count-max 100 ' +
        '--window-s 604800'],
      ['Say why a device cannot connect, from its side', 'gradstream doctor HOST:PORT'],
      ['Write the model to a file', `gradstream model export --run ${run.number} --out model.npz`],
      ['Write losses and quality of all versions as CSV', `gradstream history --run ${run.number}`],
      ...(isOver(run) ? [['Begin a run with the configuration\u2019s [run]', 'gradstream run start']]
        : [run.state === 'paused' ? ['Go on with this run', 'gradstream run resume']
          : ['Give no more tasks until it is resumed', 'gradstream run pause'],
        ['End this run for good; its model stays', 'gradstream run stop']]),
    ];
    const text = JSON.stringify(wanted);
    const box = byId('command-list');
    if (box.dataset.text !== text) {
      box.dataset.text = text;
      box.replaceChildren(...wanted.map(([meaning]) =>
        make('div', {}, make('dt', {}, meaning), make('dd', {}, makeCommand()))));
    }
    // A server that was started again may have another configuration.
    [...box.children].forEach((row, i) => showCommand(row.lastElementChild.firstElementChild, wanted[i][1]));
  }
}
