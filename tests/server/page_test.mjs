// What a browser sees of the server's web page. tests/server/page_test.py starts it and names one part a line:
//
//   node page_test.mjs NODE_MODULES CHROMIUM URL [PICTURE_FOLDER]
//
// Each part ends with `done PART`; the first failure ends the process with status 1.
import assert from 'node:assert/strict';
import {createRequire} from 'node:module';
import {readFileSync, statSync} from 'node:fs';
import readline from 'node:readline';

const [modules, chromium, url, pictureFolder] = process.argv.slice(2);
const {chromium: launcher} = createRequire(import.meta.url)(`${modules}/playwright-core`);
const axeSource = readFileSync(`${modules}/axe-core/axe.min.js`, 'utf8');

const WIDE = {width: 1280, height: 900};
const PHONE = {width: 390, height: 844};
const WAIT_MS = 30000;
const PICTURE_SIZE_MAX = 150000;  // bytes
const LARGE_FLEET = 10000;

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

async function seen(selector, pattern) {
  await page.waitForFunction(([s, p]) => new RegExp(p).test(document.querySelector(s)?.innerText ?? ''),
      [selector, pattern.source]);
}

async function axe(what) {
  await page.evaluate(axeSource);
  const result = await page.evaluate(() => window.axe.run(document, {
    runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']}));
  const found = result.violations.map((v) => `${v.id}: ${v.nodes.slice(0, 3).map((n) => n.html).join(' | ')}`);
  assert.deepEqual(found, [], `axe-core, ${what}`);
  assert.ok(result.passes.length > 15, `axe-core looked at ${result.passes.length} rules only, ${what}`);
  console.log(`figure axe_${what}_rules_passed=${result.passes.length}`);
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
    await seen('#notices', /No version yet: 0 of 3 devices enrolled/);
    await seen('#run-state', /active|waiting/);
    assert.equal(await page.locator('#fleet').isVisible(), false, 'a fleet of nobody is shown');
    const headers = (await page.request.get(url)).headers();
    assert.match(headers['content-security-policy'], /^default-src 'none'; script-src 'self';/);
  },

  // Every figure of the page is the server's.
  async finished() {
    await seen('#run-state', /finished/);
    const {run, counters, devices: enrolled, rounds, refusals, http} = await status();
    const {devices} = await status('status/devices');
    await page.waitForFunction((n) => document.querySelector('#fleet-count').innerText === n,
        `${devices.length} devices`);
    assert.equal(await text('#run-name'), run.name);
    assert.equal(await figureOf('version'), count(run.version));
    assert.equal(await figureOf('devices'), count(enrolled.active));
    assert.equal(await figureOf('storage'), 'writing');
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
    // The counters were asked for by themselves, perhaps before the page's next look at them.
    await page.locator('#refusal-lists > :nth-child(2)').filter({hasText: 'wrong keys'}).waitFor();
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
    console.log(`figure versions=${run.version} devices=${devices.length} requests=${requests}`);
  },

  // From the top with the Tab key alone: in the order of the page, everything reached, nothing a trap.
  async keyboard() {
    await page.reload();  // the Tab key goes on from where a click was
    await seen('#fleet-count', /3 devices/);
    const order = [];
    for (let i = 0; i < 120; ++i) {
      await page.keyboard.press('Tab');
      const name = await focused();
      if (name === 'BODY' || (order.length > 0 && name === order[0])) break;
      order.push(name);
    }
    const wanted = ['Skip to the figures', 'Progress', 'Fleet', 'Decisions', 'Refusals', 'chart-metric', 'time',
      'The same as a table', 'fleet-group', 'fleet-order', 'fleet-find', 'Device', 'attic', 'All counters since the ' +
      'server\'s start'];
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
    const {devices} = await status('status/devices');
    const slowest = devices.reduce((a, b) => (b.step_time_us > a.step_time_us ? b : a)).device;
    const first = page.locator('#fleet-table tbody button').first();
    assert.equal(await first.innerText(), slowest);
    await first.focus();
    await page.keyboard.press('Enter');
    assert.equal(await text('#device-name'), slowest);
    await axe('sheet');
    await page.waitForTimeout(2500);  // an answer of the server comes in meanwhile
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
    for (const [colorScheme, size] of [['light', WIDE], ['dark', WIDE], ['dark', PHONE]]) {
      await page.emulateMedia({colorScheme});
      await page.setViewportSize(size);
      await axe(`${colorScheme}_${size.width}`);
    }
    await page.emulateMedia({colorScheme: 'light', reducedMotion: 'reduce'});
    const moving = await page.evaluate(() => document.getAnimations().length);
    assert.equal(moving, 0, 'something moves for whom wants no motion');
    await page.emulateMedia({reducedMotion: 'no-preference'});
    await page.setViewportSize(WIDE);
  },

  // Ten thousand devices: a picture of them all, and no more rows than on any other day.
  async large() {
    const answer = await status('status/devices');
    const devices = largeFleet(answer.devices[0], answer.time_ms);
    await page.route('**/status/devices', (route) => route.fulfill({json: {...answer, devices}}));
    await page.reload();  // on a busy machine the page asks seldom
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
    await page.unroute('**/status/devices');
  },

  // What no waiting ends is told with what to do.
  async stalled() {
    const answer = await status();
    const stall = {cause: 'out_of_range', text: '2 of 2 devices (a,b) are refused', remedy: 'set fold_scale_log2 = 8'};
    const path = /\/status(\?.*)?$/;
    await page.route(path, (route) => route.fulfill({json: {...answer, run: {...answer.run, state: 'stalled', stall}}}));
    await page.reload();
    await seen('#run-line', /2 of 2 devices \(a,b\) are refused\. To do: set fold_scale_log2 = 8\./);
    assert.equal(await text('#run-state'), 'stalled');
    await page.unroute(path);
  },

  // The worst of them is a notice with the key to change; a run that is only watched has none.
  async progress() {
    const answer = await status();
    const progress = {...answer.run.progress, state: 'not_improving', promise_ratio: 56.2,
                      text: 'the last 10 rounds promised 56.2 times all', remedy: 'begin a run with step_size = 0.01'};
    const path = /\/status(\?.*)?$/;
    await page.route(path, (route) => route.fulfill({json: {...answer, run: {...answer.run, progress}}}));
    await page.reload();
    await seen('#notices', /not improving: the last 10 rounds .* To do: begin a run with step_size = 0\.01\./);
    await seen('#figures [data-figure=progress]', /promised 56\.20? times its gain/);
    await page.unroute(path);
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
    await shoot('page.png', {clip: {x: 0, y: 0, width: 1280, height: 790}});
    await page.locator('#fleet').evaluate((element) => window.scrollTo(0, element.offsetTop - 70));
    await shoot('page_fleet.png', {});
    await page.emulateMedia({colorScheme: 'dark'});
    await page.setViewportSize({width: PHONE.width, height: 1300});
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
