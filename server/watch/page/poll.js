// Asks the server again and again, and never more often than it can bear: a request takes at most one part in twenty of
// the time, a server that does not answer is asked after 1, 2, 4 ... 30 s, a page that nobody sees asks nothing.

const PERIOD_MS = 2000;
const PERIOD_MAX_MS = 120000;
const SHARE = 20;
const RETRY_MAX_MS = 30000;
const TIMEOUT_MS = 20000;
const FILE_TIMEOUT_MS = 600000;  // a model may be large, and the way to the server narrow
const TOKEN_KEY = 'gradstream.token';

// Until the tab is closed; a browser that forbids the storage keeps it until the page is loaded again.
let token = '';
try {
  token = sessionStorage.getItem(TOKEN_KEY) ?? '';
} catch { /* memory only */ }

export function hasToken() {
  return token !== '';
}

export function setToken(text) {
  token = text;
  try {
    if (text) sessionStorage.setItem(TOKEN_KEY, text);
    else sessionStorage.removeItem(TOKEN_KEY);
  } catch { /* memory only */ }
}

// {status, data}: 200 with data, another status with the server's sentence, 0 where no answer came (in time).
const get = (path) => ask(path, (answer) => answer.json(), {});
// The same with a Blob.
export const getFile = (path) => ask(path, (answer) => answer.blob(), {timeout: FILE_TIMEOUT_MS});

async function ask(path, read, {timeout = TIMEOUT_MS}) {
  const headers = token ? {Authorization: `Bearer ${token}`} : {};
  try {
    const answer = await fetch(path, {headers, cache: 'no-store', credentials: 'omit', redirect: 'error',
      signal: AbortSignal.timeout(timeout)});
    return {status: answer.status, data: answer.ok ? await read(answer) : (await answer.text()).trim()};
  } catch (error) {
    return {status: 0, data: error.name === 'TimeoutError' ? ' in time' : ''};
  }
}

export class Poller {
  // path(): what to ask for; on(answer): true to go on, 'now' to ask again at once, false to wait for start().
  constructor(path, on) {
    Object.assign(this, {path, on, failures: 0, timer: 0, busy: false, wanted: false, due: 0});
    document.addEventListener('visibilitychange', () => {
      if (this.wanted && !document.hidden) this.start();
    });
  }

  start() {
    this.wanted = true;
    clearTimeout(this.timer);
    if (!this.busy) this.ask();
  }

  stop() {
    this.wanted = false;
    clearTimeout(this.timer);
  }

  async ask() {
    this.busy = true;
    const begin = performance.now();
    const answer = await get(this.path());
    const took = performance.now() - begin;
    this.busy = false;
    if (!this.wanted) return;
    this.failures = answer.status === 200 ? 0 : this.failures + 1;
    const retry = Math.min(1000 * 2 ** (this.failures - 1), RETRY_MAX_MS) * (0.8 + 0.4 * Math.random());
    const wait = this.failures ? retry : Math.min(Math.max(PERIOD_MS, SHARE * took), PERIOD_MAX_MS);
    this.due = Date.now() + wait;
    const next = this.on(answer);
    if (!next) {
      this.wanted = false;
    } else if (!document.hidden) {
      this.timer = setTimeout(() => this.ask(), next === 'now' ? 0 : wait);
    }
  }
}
