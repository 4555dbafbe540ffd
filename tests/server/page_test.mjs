// What a browser sees of the server's web page. tests/server/page_test.py starts it and names one part a line:
//
//   node page_test.mjs NODE_MODULES CHROMIUM URL [PICTURE_FOLDER]
//
// Each part ends with `done PART`; the first failure ends the process with status 1.
import assert from 'node:assert/strict';
import {createRequire} from 'node:module';
import {readFileSync, statSync} from 'node:fs';
import readline from 'node:readline';
import {NEEDS} from './page_needs.mjs';

const [modules, chromium, url, pictureFolder] = process.argv.slice(2);
const {chromium: launcher} = createRequire(import.meta.url)(`${modules}/playwright-core`);
const axeSource = readFileSync(`${modules}/axe-core/axe.min.js`, 'utf8');

const WIDE = {width: 1280, height: 900};
const PHONE = {width: 390, height: 844};
const WAIT_MS = 30000;
const PICTURE_SIZE_MAX = 150000;  // bytes
const LARGE_FLEET = 10000;
const STATUS = /\/status(\?.*)?$/;
const DEVICES = '**/status/devices';

const browser = await launcher.launch({executablePath: chromium, args: ['--no-sandbox', '--disable-gpu']});
const context = await browser.newContext({viewport: WIDE, colorScheme: 'light'});
const page = await context.newPage();
page.setDefaultTimeout(WAIT_MS);

// Nothing but this server is asked, and nothing goes wrong that is not expected.
let expectsErrors = false;
let requests = 0;
const faults = [];
page.on('request', (request) => {
  ++requests;
  if (!request.url().startsWith(url)) faults.push(`an outside request: ${request.url()}`);
});
page.on('pageerror', (error) => faults.push(`an exception: ${error.stack}`));
page.on('console', (message) => {
  if (message.type() === 'error' && !expectsErrors) faults.push(`an error on the console: ${message.text()}`);
});

const text = (selector) => page.locator(selector).innerText();
const figureOf = (key) => text(`[data-figure=${key}] .value`);
const status = async (path = 'status') => (await fetch(url + path)).json();
const count = (value) => value.toLocaleString('en');

// An element that is not shown has its text all the same: innerText gives it.
async function seen(selector, pattern) {
  await page.waitForFunction(([s, p]) => {
    const element = document.querySelector(s);
    return Boolean(element?.checkVisibility()) && new RegExp(p).test(element.innerText);
  }, [selector, pattern.source]);
}

async function axe(what) {
  // What the page learns from observers of sizes it learns with the frame after that of the new size.
  await page.evaluate(() => new Promise((done) => { requestAnimationFrame(() => requestAnimationFrame(done)); }));
  if (!await page.evaluate(() => Boolean(window.axe))) await page.evaluate(axeSource);
  const result = await page.evaluate(() => window.axe.run(document, {
    preload: false, resultTypes: ['violations'],
    runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']}));
  const found = result.violations.map((v) => `${v.id}: ${v.nodes.slice(0, 3).map((n) => n.html).join(' | ')}`);
  assert.deepEqual(found, [], `axe-core, ${what}`);
  assert.ok(result.passes.length > 15, `axe-core looked at ${result.passes.length} rules only, ${what}`);
  console.log(`figure axe_${what}_rules_passed=${result.passes.length}`);
}

// The page asks again now, as when somebody comes back to its tab.
const askNow = () => page.evaluate(() => document.dispatchEvent(new Event('visibilitychange')));

// From now on /status says what the server said last, changed by change(answer). The answer before it ends when the new
// one is there: in between the page would see the server's own, in which a row that has the focus may be missing.
let canned = null;
async function can(change) {
  const answer = await status();
  const before = canned;
  canned = (route) => route.fulfill({json: {...change(answer), time_ms: Date.now()}});
  await page.route(STATUS, canned);
  if (before) await page.unroute(STATUS, before);
}

// Until release() the page is a new one that shows these answers alone. On a busy machine a copy of the fleet may be
// seconds old, and the next one has other figures, which may sort another device into the row that has the focus.
async function hold() {
  const answer = await status();
  const fleet = await status('status/devices');
  await page.route(STATUS, (route) => route.fulfill({json: {...answer, time_ms: Date.now()}}));
  await page.route(DEVICES, (route) => route.fulfill({json: fleet}));
  await page.reload();
  await seen('#fleet-count', new RegExp(`^${count(fleet.devices.length)} devices$`));
  return {...answer, fleet: fleet.devices};
}

async function release() {
  await page.unroute(STATUS);
  await page.unroute(DEVICES);
}

// In light and dark, on a desk and on a phone.
async function inEachLook(look) {
  for (const [colorScheme, size] of [['light', WIDE], ['dark', WIDE], ['light', PHONE], ['dark', PHONE]]) {
    await page.emulateMedia({colorScheme});
    await page.setViewportSize(size);
    await look(`${colorScheme}_${size.width}`);
  }
  await page.emulateMedia({colorScheme: 'light'});
  await page.setViewportSize(WIDE);
}

async function hasNoSidewaysScroll(what) {
  const [content, window] = await page.evaluate(() =>
      [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
  assert.ok(content <= window, `${what}: ${content} pixels of content in ${window}`);
}

// What the focus is on, in one word.
const focused = () => page.evaluate(() => {
  const element = document.activeElement;
  return element.id || element.textContent.trim().slice(0, 40) || element.value || element.tagName;
});

const parts = {
  async waiting() {
    await page.goto(url);
    await seen('#attention', /The run begins with 3 active devices \(device_count\), and there are 0\./);
    await seen('#run-state', /active|waiting/);
    assert.equal(await page.locator('#fleet').isVisible(), false, 'a fleet of nobody is shown');
    const headers = (await page.request.get(url)).headers();
    assert.match(headers['content-security-policy'], /^default-src 'none'; script-src 'self';/);
  },

  // Every figure of the page is the server's.
  async finished() {
    await seen('#run-state', /finished/);
    const {run, counters, devices: enrolled, rounds, refusals, http, fleet: devices} = await hold();
    assert.equal(await text('#run-name'), run.name);
    assert.equal(await figureOf('version'), count(run.version));
    assert.equal(await figureOf('devices'), count(enrolled.active));
    assert.match(await text('#foot-line'), /The journal is written, with 0 failures\./);
    assert.match(await text('[data-figure=devices] .note'), /^(all|\d+) in touch/);
    assert.equal(await text('[data-figure=left] .note'), 'the run is over');
    assert.match(await figureOf('bytes'), /^[0-9.]+\u00a0[kM]?B$/);
    assert.ok(counters.updates_late > 0 && counters.updates_partial > 0, 'the run had nobody late, or nothing partial');
    const last = rounds.at(-1);
    const loss = Number((await figureOf('loss')).replace('\u2212', '-'));
    const error = Math.abs(loss - last.loss_before) / Math.abs(last.loss_before);
    assert.ok(error <= 1e-4, `${loss} for ${last.loss_before}`);
    // The curve's own numbers, and the table beneath.
    await page.locator('#chart-table-box summary').click();
    const rows = await page.locator('#chart-table tbody tr').allInnerTexts();
    assert.ok(rows[0].startsWith(`${count(last.version)}\t`), rows[0]);
    assert.match(await page.getAttribute('#chart', 'aria-label'), new RegExp(`at version ${last.version}\\.`));
    assert.equal(await page.locator('#chart canvas').count(), 1);
    for (const metric of ['gap', 'answers', 'bytes', 'duration', 'loss']) {
      for (const axis of ['version', 'bytes', 'time']) {
        await page.selectOption('#chart-metric', metric);
        await page.check(`input[name=axis][value=${axis}]`);
        assert.equal(await page.locator('#chart canvas').count(), 1, `${metric} against ${axis}`);
      }
    }
    await page.selectOption('#chart-metric', 'gap');
    await page.fill('#optimum', String(last.loss_before - 0.25));
    assert.equal(await page.locator('#chart-legend b').innerText(), '0.25000');
    await page.selectOption('#chart-metric', 'loss');
    // The fleet.
    const table = page.locator('#fleet-table');
    for (const device of devices) {
      const cells = await table.locator('tbody tr', {has: page.getByRole('button', {name: device.device, exact: true})})
          .locator('td').allInnerTexts();
      assert.equal(cells[0], device.standing.replace('_', ' '));
      assert.deepEqual(cells.slice(4, 7), [device.folded + device.late, device.late, device.partial].map(count));
      assert.deepEqual(cells.slice(7, 9), [device.board, device.firmware]);
    }
    const standings = Object.entries(Object.groupBy?.(devices, (d) => d.standing) ?? group(devices));
    for (const [standing, all] of standings) {
      const chip = page.locator('#fleet-legend button', {hasText: standing.replace('_', ' ')});
      assert.equal(await chip.locator('b').innerText(), count(all.length));
    }
    for (const key of ['staleness', 'step_time', 'seen', 'arena', 'stack', 'board', 'firmware', 'reset', 'standing']) {
      await page.selectOption('#fleet-group', key);
      const chips = await page.locator('#fleet-legend b').allInnerTexts();
      assert.equal(chips.reduce((sum, n) => sum + Number(n), 0), devices.length, `a device is in no group of ${key}`);
    }
    // Decisions and refusals. Whether the third device is in time is its own affair.
    const why = await page.locator('#decision-table tbody tr').first().innerText();
    assert.ok(why.startsWith(`${last.version}\t`) && /2 of 3 answered: the goal|all 3 answered/.test(why), why);
    assert.match(await text('#policy'), /closes when 2 devices have answered.*\n.*counts less.*inverse sqrt/);
    const refused = await text('#refusal-lists > :first-child');
    for (const [reason, n] of Object.entries(refusals)) {
      assert.ok(refused.includes(`${count(n)}\n${reason.replaceAll('_', ' ')}`), `${reason} in: ${refused}`);
    }
    const peers = await text('#refusal-lists > :nth-child(2)');
    for (const key of ['plain_text_peers', 'unknown_identities', 'wrong_keys']) {
      assert.ok(counters[key] > 0, key);
      assert.ok(peers.includes(`${count(counters[key])}\n${key.replaceAll('_', ' ')}`), `${key} in: ${peers}`);
    }
    const requested = await text('#refusal-lists > :nth-child(3)');
    const turnedAway = Object.entries(http.refusals).filter(([, n]) => n > 0);
    assert.ok(turnedAway.length > 0, 'no request was refused');
    for (const [reason, n] of turnedAway) {
      assert.ok(requested.includes(`${count(n)}\n${reason.replaceAll('_', ' ')}`), `${reason} in: ${requested}`);
    }
    await release();
    console.log(`figure versions=${run.version} devices=${devices.length} requests=${requests}`);
  },

  // From the top with the Tab key alone: in the order of the page, everything reached, nothing a trap.
  async keyboard() {
    const {fleet: devices} = await hold();  // of a new page: the Tab key goes on from where a click was
    const order = [];
    for (let i = 0; i < 120; ++i) {
      await page.keyboard.press('Tab');
      const name = await focused();
      if (name === 'BODY' || (order.length > 0 && name === order[0])) break;
      order.push(name);
    }
    const wanted = ['Skip to the figures', 'Progress', 'Fleet', 'Decisions', 'Refusals', 'Runs', 'model-link',
      'chart-metric', 'time',
      'The same as a table', 'fleet-group', 'fleet-order', 'fleet-find', 'Device', 'attic', 'All counters since the ' +
      'server\'s start', 'Copy the command gradstream device add N'];
    let from = -1;
    for (const name of wanted) {
      const at = order.indexOf(name, from + 1);
      assert.ok(at > from, `${name} is not behind ${order[from]} in: ${order.join(', ')}`);
      from = at;
    }
    // Sorting, a device's sheet and back, by keys.
    const head = page.locator('#fleet-table thead th', {hasText: 'Step time'});
    await head.locator('button').focus();
    await page.keyboard.press('Enter');
    assert.equal(await head.getAttribute('aria-sort'), 'ascending');
    await page.keyboard.press('Space');
    assert.equal(await head.getAttribute('aria-sort'), 'descending');
    const slowest = devices.reduce((a, b) => (b.step_time_us > a.step_time_us ? b : a)).device;
    const first = page.locator('#fleet-table tbody button').first();
    assert.equal(await first.innerText(), slowest);
    await first.focus();
    await page.keyboard.press('Enter');
    assert.equal(await text('#device-name'), slowest);
    await axe('sheet');
    await Promise.all([page.waitForResponse(DEVICES), askNow()]);  // an answer comes in meanwhile
    await page.keyboard.press('Escape');
    assert.equal(await page.locator('#device').isVisible(), false);
    assert.equal(await focused(), slowest, 'the focus did not come back');
    // A chip narrows the table and widens it again.
    const chip = page.locator('#fleet-legend button').first();
    await chip.focus();
    await page.keyboard.press('Enter');
    assert.equal(await chip.getAttribute('aria-pressed'), 'true');
    assert.equal(String(await page.locator('#fleet-table tbody tr').count()), await chip.locator('b').innerText());
    await page.keyboard.press('Enter');
    assert.equal(await page.locator('#fleet-table tbody tr').count(), devices.length);
    console.log(`figure tab_stops=${order.length}`);
    await release();
  },

  async layout() {
    for (const size of [WIDE, PHONE, {width: 320, height: 640}, {width: 800, height: 600}]) {
      await page.setViewportSize(size);
      await hasNoSidewaysScroll(`${size.width} pixels`);
      const small = await page.evaluate(() => [...document.querySelectorAll('main button')]
          .map((button) => [button.innerText, button.getBoundingClientRect()])
          .filter(([, box]) => box.width > 0 && (box.width < 24 || box.height < 24))
          .map(([name, box]) => `${name}: ${box.width} x ${box.height}`));
      assert.deepEqual(small, [], 'buttons too small for a finger');
    }
    await page.setViewportSize(WIDE);
  },

  async accessibility() {
    await can((answer) => ({...answer, attention: NEEDS.slice(0, 3)}));
    await askNow();
    await seen('#attention-list', wordsOf(NEEDS[2]));
    await inEachLook(axe);
    await page.emulateMedia({reducedMotion: 'reduce'});
    const moving = await page.evaluate(() => document.getAnimations().length);
    assert.equal(moving, 0, 'something moves for whom wants no motion');
    await page.emulateMedia({reducedMotion: 'no-preference'});
    await page.unroute(STATUS);
  },

  // Every sentence that the server can say, the worst first; then what comes and goes while somebody is at it.
  async attention() {
    const metrics = await (await fetch(`${url}metrics`)).text();
    const ids = [...metrics.matchAll(/^gradstream_attention\{id="(\w+)"\}/gm)].map((match) => match[1]);
    assert.deepEqual(NEEDS.map((need) => need.id).sort(), ids.sort(), 'page_needs.mjs has one sentence of each kind');
    await can((answer) => ({...answer, attention: NEEDS, command_options: '--config /srv/fleet.toml'}));
    await askNow();
    await page.locator('#attention-more', {hasText: `Show ${NEEDS.length - 4} more`}).click();
    const rows = page.locator('#attention-list > li');
    assert.equal(await rows.count(), NEEDS.length);
    for (const [i, need] of NEEDS.entries()) {
      const row = (await rows.nth(i).innerText()).replace(/\n+/g, '\n');
      const level = {stops: 'Stops the run', slows: 'Slows the run', advice: 'Advice'}[need.level];
      assert.ok(row.startsWith(`${level}\n${need.text}`) && row.includes(need.remedy), `${need.id}: ${row}`);
      assert.equal(await rows.nth(i).locator('code').isVisible(), need.command !== '', need.id);
      if (need.command) assert.equal(await rows.nth(i).locator('code').innerText(), configured(need.command));
    }
    assert.equal(await page.locator('#command-list code').first().textContent(),
      configured('gradstream device add NAME --out NAME.identity'), 'the list of commands keeps another configuration');
    for (const size of [PHONE, {width: 320, height: 640}, WIDE]) {
      await page.setViewportSize(size);
      await hasNoSidewaysScroll(`all sentences at ${size.width} pixels`);
    }
    const first = NEEDS.find((need) => need.command);
    assert.match(await page.title(), /^\u26a0 \d/, 'the tab does not tell that the run stands still');
    await seen('#said', new RegExp(`^${NEEDS.length} things need attention\\. Stops the run: `));
    await copies(first);
    // The focus stays, and a screen reader hears of what is new alone.
    await rows.nth(NEEDS.indexOf(first)).getByRole('button').focus();
    const last = NEEDS.at(-1);
    await can((answer) => ({...answer, attention: [{...first, text: `${first.text} It goes on.`}, last]}));
    await askNow();
    await seen('#attention-list', /It goes on\./);
    assert.equal(await rows.count(), 2);
    assert.match(await focused(), new RegExp(`^\\w+ the command ${first.command}`));
    await seen('#said', /^2 things need attention/);
    await can((answer) => ({...answer, attention: [{...first, text: 'It waits.'}, last]}));
    await askNow();
    await seen('#attention-list', /It waits\./);
    assert.doesNotMatch(await text('#said'), /It waits/, 'each change of a sentence is said aloud');
    await can((answer) => ({...answer, attention: []}));
    await askNow();
    await seen('#calm', /Nothing needs attention\./);
    assert.equal(await page.locator('#attention').isVisible(), false);
    await seen('#said', /Nothing needs attention any more/);
    await page.unroute(STATUS);
  },

  // Speed and time left, in words that are no riddle at any speed; the last sign of a device that never came.
  async pace() {
    const ways = [
      [540, 5, '540', 'Versions a minute', /^about 10.s$/],
      [8.2, 340, '8.2', 'Versions a minute', /^about 6.min$/],
      [0.05, 86400 * 3, '3.0', 'Versions an hour', /^about 3.days$/],
      [0.001, null, '1.4', 'Versions a day', /^\u2013$/],
    ];
    for (const [rate, left, value, label, time] of ways) {
      await can((answer) => ({...answer, run: {...answer.run, state: 'active'},
        pace: {...answer.pace, versions_per_minute: rate, seconds_left: left}}));
      await askNow();
      await seen('[data-figure=pace] dt', new RegExp(`^${label}$`));
      await seen('[data-figure=left] .value', time);
      assert.equal(await figureOf('pace'), value);
    }
    const answer = await status('status/devices');
    const absent = {connected: false, standing: 'silent', last_seen_ms: 0};
    const devices = answer.devices.map((device) => ({...device, ...absent}));
    await page.route(DEVICES, (route) => route.fulfill({json: {...answer, devices}}));
    await askNow();
    await seen('[data-figure=devices] .note', new RegExp(`^0 in touch, ${devices.length} silent$`));
    await seen('#fleet-table tbody td:nth-of-type(2)', /^never$/);
    await page.unroute(DEVICES);
    await page.unroute(STATUS);
  },

  // The newest model as a file, and the runs before this one.
  async runs() {
    await seen('#model-note', /^npz of version \d+, 1\.02.kB of numbers$/);
    const download = await takesModel();
    assert.match(download.suggestedFilename(), /^run1_v\d+\.npz$/);
    await can((answer) => ({...answer, run: {...answer.run, model_bytes: 1e8}}));
    await askNow();
    await seen('#model-note', /^The model has 100.MB: take it with the command below\.$/);
    assert.equal(await page.locator('#model-link').isVisible(), false);
    await page.route('**/status/runs', (route) => route.fulfill({json: {served: 3, runs: PAST}}));
    await can((answer) => ({...answer, run: {...answer.run, state: 'stopped'}}));
    await askNow();  // a run that ends brings the list anew
    await seen('#runs', /pumps/);
    const rows = await page.locator('#run-table tbody tr').allInnerTexts();
    assert.deepEqual(rows.map((row) => row.split('\t').slice(0, 5).join()), ['2,pumps,finished,300,quality 93.1 %',
      '1,first try,stopped,41,loss \u22120.90000']);
    await page.setViewportSize(PHONE);
    const frame = page.locator('#run-table .rows');
    await page.waitForFunction(() => document.querySelector('#run-table .rows').tabIndex === 0);
    await frame.focus();
    await page.keyboard.press('End');
    await page.keyboard.press('ArrowRight');
    await page.waitForFunction(() => document.querySelector('#run-table .rows').scrollLeft > 0);
    assert.equal(await page.getByRole('link', {name: 'Runs'}).isVisible(), true, 'a phone has no way to the sections');
    await page.setViewportSize(WIDE);
    await page.unroute('**/status/runs');
    await page.unroute(STATUS);
  },

  // Ten thousand devices: a picture of them all, and no more rows than on any other day.
  async large() {
    const answer = await status('status/devices');
    const devices = largeFleet(answer.devices[0], answer.time_ms);
    await page.route(DEVICES, (route) => route.fulfill({json: {...answer, devices}}));
    await askNow();
    await page.waitForFunction((n) => document.querySelector('#fleet-count').innerText === n,
        `${count(LARGE_FLEET)} devices`);
    assert.equal(await page.locator('#fleet-table tbody tr').count(), 20);
    assert.equal(await text('#fleet-table .pager span'), `1 to 20 of ${count(LARGE_FLEET)}`);
    const nodes = await page.evaluate(() => document.querySelectorAll('*').length);
    assert.ok(nodes < 3000, `${nodes} elements`);
    await page.locator('#fleet-table .pager button', {hasText: 'Next'}).click();
    assert.equal(await text('#fleet-table .pager span'), `21 to 40 of ${count(LARGE_FLEET)}`);
    await page.fill('#fleet-find', 'node-0999');
    assert.equal(await text('#fleet-count'), `10 of ${count(LARGE_FLEET)} devices`);
    await page.fill('#fleet-find', '');
    await page.setViewportSize(PHONE);
    await hasNoSidewaysScroll('ten thousand devices on a phone');
    await page.setViewportSize(WIDE);
    // To the first task after the frame is drawn: scripts, layout and paint, and the wait for the frame.
    const took = await page.evaluate(() => new Promise((done) => {
      const begin = performance.now();
      document.querySelector('#fleet-form').dispatchEvent(new Event('input'));
      requestAnimationFrame(() => setTimeout(() => done(performance.now() - begin), 0));
    }));
    console.log(`figure elements_10000=${nodes} redraw_10000_ms=${took.toFixed(0)}`);
    await page.unroute(DEVICES);
  },

  // The same page of a node: who the nodes are, and nothing that no node knows.
  async nodes() {
    await page.reload();
    await seen('#run-state', /finished/);
    await can((answer) => ({...answer, node: NODE, cluster: null}));
    await askNow();
    await seen('#nodes-line', /^The engine has not said yet who the nodes are\.$/);
    await can((answer) => ({...answer, node: NODE, cluster: null, run: {...answer.run, state: 'active',
      round: {...answer.run.round, answers: null, wanted: 12, late: null}}}));
    await askNow();
    await seen('[data-figure=round]', /\u2013 of 12/);
    await can((answer) => ({...answer, node: NODE, cluster: CLUSTER}));
    await page.reload();
    await seen('#nodes-line', /^3 nodes joined this run\. node-2 leads, in term 4\. .* 2.s ago, within 3\.0.ms\.$/);
    const rows = await page.locator('#node-table tbody tr').allInnerTexts();
    assert.deepEqual(rows.map((row) => row.split('\t').slice(0, 6).join()), [
      'node-1 (this one),\u2013,1\u00a0s ago,0.9.0,42,7', 'node-2,yes,1\u00a0s ago,0.9.1,42,11',
      'node-3,\u2013,never,not told,40,0']);
    for (const id of ['progress', 'fleet', 'decision-table', 'runs', 'model']) {
      assert.equal(await page.locator(`#${id}`).isVisible(), false, `${id} of a node is shown`);
    }
    assert.equal(await page.locator('[data-figure=loss]').count(), 0, 'a node knows no losses');
    assert.match(await text('#foot-line'), /^Node node-1 of release 0\.9\.0, up since /);
    await seen('#command-list', /gradstream engine status/);
    await hasNoSidewaysScroll('the nodes');
    await axe('nodes');
    await can((answer) => ({...answer, node: NODE, cluster: {...CLUSTER, lease_ms: 0, trouble: 'It is away.'}}));
    await askNow();
    await seen('#nodes-line', /Nobody knows who leads now\. .* It is away\.$/);
    await can((answer) => ({...answer, node: NODE, cluster: {...CLUSTER, lease_ms: 0}}));
    await askNow();
    await seen('#nodes-line', /No node leads\. /);
    await page.unroute(STATUS);
    await page.reload();
    await seen('#fleet', /Fleet/);
    assert.equal(await page.locator('#nodes').isVisible(), false);
  },

  async gone() {
    expectsErrors = true;
    await seen('#notices', /The server does not answer/);
    await seen('#retry', /What stands below is .* old\. Next attempt in \d+ s\./);
    assert.equal(await text('#freshness'), 'no answer');
    assert.equal(await page.locator('#content').isVisible(), true, 'the last figures are gone too');
    await axe('gone');
  },

  async token(secret) {
    await page.reload();
    await seen('#access', /asks for a token/);
    assert.equal(await focused(), 'token');
    await axe('token');
    await page.keyboard.type('not the token at all');
    await page.keyboard.press('Enter');
    await seen('#token-problem', /refused this token/);
    assert.equal(await page.locator('#content').isVisible(), false);
    await page.fill('#token', secret);
    await page.keyboard.press('Enter');
    await seen('#run-state', /finished/);
    assert.equal(await page.locator('#access').isVisible(), false);
    // The curve of another life of the server; what the wire carried then is not known.
    for (const axis of ['bytes', 'version']) {
      await page.check(`input[name=axis][value=${axis}]`);
      assert.equal(await page.locator('#chart canvas').count(), 1, `after a restart, against ${axis}`);
    }
    assert.match(await page.getAttribute('#chart', 'aria-label'), /at version 1, .* at version \d+\./);
    const {origin, protocol} = new URL((await takesModel()).url());
    assert.deepEqual([protocol, origin], ['blob:', new URL(url).origin], 'the model came without the token');
    assert.ok(!page.url().includes(secret) && !(await page.content()).includes(secret), 'the token shows');
    await page.reload();
    await seen('#run-state', /finished/);  // this tab still knows it
    const stranger = await context.newPage();
    await stranger.goto(url);
    await stranger.locator('#access').waitFor();
    await stranger.close();
    await page.locator('#forget').click();
    await seen('#access', /asks for a token/);
  },

  // The documentation's.
  async pictures() {
    await page.goto(url);
    await seen('#fleet-count', /12 devices/);
    await page.check('input[name=axis][value=version]');
    await page.waitForTimeout(4500);
    await page.mouse.move(0, 0);
    await page.setViewportSize({width: WIDE.width, height: 1075});
    await shoot('page.png', {});
    await page.setViewportSize(WIDE);
    await page.locator('#fleet').evaluate((element) => window.scrollTo(0, element.offsetTop - 70));
    await shoot('page_fleet.png', {});
    await page.emulateMedia({colorScheme: 'dark'});
    await page.setViewportSize({width: PHONE.width, height: 1240});
    await page.evaluate(() => window.scrollTo(0, 0));
    await page.waitForTimeout(500);
    await shoot('page_phone.png', {});
  },
};

async function shoot(name, options) {
  const path = `${pictureFolder}/${name}`;
  await page.screenshot({path, ...options});
  const {size} = statSync(path);
  assert.ok(size <= PICTURE_SIZE_MAX, `${name} has ${size} bytes`);
  console.log(`figure ${name}=${size} bytes`);
}

const wordsOf = (need) => new RegExp(need.text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));

// A command as the page shows it where the server has that configuration; names stay last.
const configured = (command) => command.startsWith('gradstream ')
    ? command.replace(/( -- |$)/, ' --config /srv/fleet.toml$1') : command;

// With the browser's leave into the clipboard; without it the text is selected, and says so.
async function copies(need) {
  const box = page.locator('.command', {hasText: need.command}).first();
  await context.grantPermissions(['clipboard-read', 'clipboard-write']);
  await box.getByRole('button').click();
  await seen('#said', /The command is copied\./);
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), need.command);
  await context.clearPermissions();
  await page.evaluate(() => {
    Object.defineProperty(navigator, 'clipboard', {value: undefined, configurable: true});
    document.execCommand = () => false;
  });
  await box.getByRole('button').click();
  await seen('#said', /The command is selected\./);
  assert.equal(await page.evaluate(() => getSelection().toString()), need.command);
  await page.evaluate(() => {  // the browser's own again
    delete navigator.clipboard;
    delete document.execCommand;
  });
}

// The file that the link brings.
async function takesModel() {
  const [download] = await Promise.all([page.waitForEvent('download'), page.locator('#model-link').click()]);
  assert.equal(readFileSync(await download.path()).subarray(0, 2).toString(), 'PK', 'no archive');
  return download;
}

const PAST = [{number: 1, name: 'first try', problem: 'kpca', state: 'stopped', versions: 41, began_ms: 1.79e12,
  ended_ms: 1.7901e12, loss: -0.9, quality: ''}, {number: 2, name: 'pumps', problem: 'kpca', state: 'finished',
  versions: 300, began_ms: 1.791e12, ended_ms: 1.7911e12, loss: -1.1, quality: 'quality 93.1 %'}];

const NODE = {name: 'node-1', release: '0.9.0', version: 42, leads: false, trouble: false, not_ready: '',
  engine_connected: true, engine_trouble: ''};
const CLUSTER = {age_ms: 1900, took_ms: 3, trouble: '', leader: 'node-2', term: 4, lease_ms: 2400, open_version: 42,
  sealed: false, nodes: [
    {name: 'node-1', release: '0.9.0', seen_ms: 600, epoch: 2, batch: 7, open_version: 42, leads: false},
    {name: 'node-2', release: '0.9.1', seen_ms: 700, epoch: 3, batch: 11, open_version: 42, leads: true},
    {name: 'node-3', release: '', seen_ms: null, epoch: 1, batch: 0, open_version: 40, leads: false}]};

function group(devices) {
  const found = {};
  for (const device of devices) (found[device.standing] ??= []).push(device);
  return found;
}

// One seed, one fleet.
function largeFleet(like, now) {
  const standings = ['in_time', 'in_time', 'in_time', 'in_time', 'partial', 'late', 'silent', 'new', 'refused'];
  let seed = 1;
  const draw = (n) => (seed = (seed * 48271) % 2147483647) % n;
  return Array.from({length: LARGE_FLEET}, (_, index) => ({...like, index,
    device: `node-${String(index).padStart(5, '0')}`, standing: standings[draw(standings.length)],
    step_time_us: 500 + draw(1000) ** 2, last_seen_ms: now - draw(100000), firmware: `0.${draw(9)}.0`,
    board: ['rp2040', 'stm32f405', 'linux-aarch64', 'mps2-an386'][draw(4)],
    arena_high_water_bytes: 4000 + draw(9000), stack_high_water_bytes: draw(2) * (900 + draw(2000))}));
}

for await (const line of readline.createInterface({input: process.stdin})) {
  const [name, ...rest] = line.split(' ');
  if (name === 'end') break;
  try {
    await parts[name](...rest);
    assert.deepEqual(faults, []);
    console.log(`done ${line}`);
  } catch (error) {
    console.log(`${name}: ${error.stack}\n${faults.join('\n')}`);
    await browser.close();
    process.exit(1);
  }
}
await browser.close();
process.exit(0);
