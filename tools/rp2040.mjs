// Runs an RP2040 image in rp2040js: plays the boot ROM, joins UART1 to a server's TCP port and UART0 to its own input and
// output, and answers the image's semihosting calls, as QEMU does for the other boards. tools/emulate.py starts it.
//
//   node tools/rp2040.mjs --image ELF --link HOST:PORT --words "client until-finished" [--load FILE@ADDRESS]...
//                         [--chip ID] [--cut-instruction N]
//
// --cut-instruction: the power is cut after the Nth instruction since the start; exit status 75.
// It has no HardFault: a bad access reads ones, an undefined instruction does nothing.
import fs from 'node:fs';
import net from 'node:net';
import process from 'node:process';
import { RP2040 } from '../third_party/rp2040js/node_modules/rp2040js/dist/esm/index.js';
import { SimulationClock } from '../third_party/rp2040js/node_modules/rp2040js/dist/esm/clock/simulation-clock.js';

const FLASH_BEGIN = 0x10000000;
const RAM_BEGIN = 0x20000000;
const BOOT2_SIZE = 256;
const BOOT2_ADDRESS = 0x20041f00;
const CYCLE_NANOS = 8; // 125 MHz
const SLICE_INSTRUCTIONS = 200000; // between two looks at the socket
const TICK_INSTRUCTIONS = 32; // between two looks at the clock: less than a microsecond
const RECONNECT_MS = 1000;
const POWER_CUT_STATUS = 75; // as semihosting.h has it

const options = { load: [] };
for (let i = 2; i < process.argv.length; i += 2) {
  const name = process.argv[i].slice(2);
  if (name === 'load') options.load.push(process.argv[i + 1]);
  else options[name] = process.argv[i + 1];
}

let leftInstructions = Number(options['cut-instruction'] ?? Infinity); // until the cut
if (!(leftInstructions >= 1) || leftInstructions % 1 > 0) {
  fail(`--cut-instruction wants a count, not ${options['cut-instruction']}`);
}

const clock = new SimulationClock();
const rp2040 = new RP2040(clock);
rp2040.logger = { debug() {}, info() {}, warn() {}, error() {} };
const { core } = rp2040;

function fail(text) {
  console.log(`event=failed reason="${text}"`);
  process.exit(2);
}

function loadElf(path) {
  const elf = fs.readFileSync(path);
  const view = new DataView(elf.buffer, elf.byteOffset, elf.length);
  const offset = view.getUint32(28, true);
  for (let i = 0; i < view.getUint16(44, true); i++) {
    const at = offset + i * view.getUint16(42, true);
    const [kind, from, , address, size] = [0, 4, 8, 12, 16].map((o) => view.getUint32(at + o, true));
    if (kind === 1 && size > 0 && address >= FLASH_BEGIN && address < RAM_BEGIN) {
      rp2040.flash.set(elf.subarray(from, from + size), address - FLASH_BEGIN);
    }
  }
}

// The ROM's part: CRC of the second stage, its copy in RAM, a jump (data sheet 2.8.1).
function boot() {
  let crc = 0xffffffff;
  for (const byte of rp2040.flash.subarray(0, BOOT2_SIZE - 4)) {
    crc ^= byte << 24;
    for (let bit = 0; bit < 8; bit++) crc = crc & 0x80000000 ? (crc << 1) ^ 0x04c11db7 : crc << 1;
  }
  const view = new DataView(rp2040.flash.buffer, rp2040.flash.byteOffset);
  if (view.getUint32(BOOT2_SIZE - 4, true) !== crc >>> 0) fail('the second boot stage fails its CRC: the ROM would refuse it');
  rp2040.sram.set(rp2040.flash.subarray(0, BOOT2_SIZE), BOOT2_ADDRESS - RAM_BEGIN);
  core.VTOR = 0;
  core.SP = BOOT2_ADDRESS;
  core.LR = 0;
  core.PC = BOOT2_ADDRESS;
}

// ---- Reset: by the watchdog, or by the processor's own register. RAM stays as it is, and so does the clock ----

const ppb = rp2040.ppb;
const watchdog = rp2040.peripherals[0x40058];
const AIRCR = 0xd0c;
const SYSRESETREQ = 0x05fa0004;
let isResetAsked = false;

watchdog.onWatchdogTrigger = () => {
  isResetAsked = true;
  watchdog.writeUint32(0, 0); // off: at its end it would trigger again and again
};
const writePpb = ppb.writeUint32.bind(ppb);
ppb.writeUint32 = (offset, value) => {
  if (offset === AIRCR && value >>> 0 === SYSRESETREQ) isResetAsked = true;
  else writePpb(offset, value);
};
if (options.chip) rp2040.peripherals[0x40000].readUint32 = () => Number(options.chip); // plays another chip

function reset() {
  isResetAsked = false;
  Object.assign(core, {
    pendingInterrupts: 0, enabledInterrupts: 0, pendingNMI: false, pendingPendSV: false, pendingSVCall: false,
    pendingSystick: false, interruptsUpdated: false, PM: false, IPSR: 0, SPSEL: 0, currentMode: 0, waiting: false,
    eventRegistered: false,
  });
  watchdog.writeUint32(0, 0);
  rp2040.writeUint32(0x40054038, 0); // the timer's interrupts
  for (const uart of rp2040.uart) uart.writeUint32(0x38, 0);
  boot();
}

// ---- Semihosting ----

const files = [];

function bytesAt(address, size) {
  const base = address >= RAM_BEGIN ? [rp2040.sram, RAM_BEGIN] : [rp2040.flash, FLASH_BEGIN];
  return base[0].subarray(address - base[1], address - base[1] + size);
}

function semihosting(operation, block) {
  const word = (index) => rp2040.readUint32(block + 4 * index) >>> 0;
  switch (operation) {
    case 0x01: { // open: path, mode, length
      const path = Buffer.from(bytesAt(word(0), word(2))).toString();
      try {
        files.push({ fd: fs.openSync(path, word(1) === 3 ? 'r+' : 'r'), at: path === '/dev/urandom' ? null : 0 });
      } catch {
        return 0xffffffff;
      }
      return files.length;
    }
    case 0x05: { // write; the bytes that were not
      const file = files[word(0) - 1];
      const count = fs.writeSync(file.fd, bytesAt(word(1), word(2)), 0, word(2), file.at);
      file.at += count;
      return word(2) - count;
    }
    case 0x06: { // read; the bytes that were not
      const file = files[word(0) - 1];
      const count = fs.readSync(file.fd, bytesAt(word(1), word(2)), 0, word(2), file.at);
      if (file.at !== null) file.at += count;
      return word(2) - count;
    }
    case 0x0a: // seek
      files[word(0) - 1].at = word(1);
      return 0;
    case 0x15: { // command line: buffer, its size
      const line = Buffer.from(`${options.words}\0`);
      if (line.length > word(1)) return 0xffffffff;
      bytesAt(word(0), line.length).set(line);
      return 0;
    }
    case 0x20: // exit: reason, code
      console.log(`event=emulator cycles=${Math.round(clock.nanos / CYCLE_NANOS)}`);
      process.exit(word(1));
    default:
      return 0xffffffff;
  }
}

rp2040.onBreak = (code) => {
  if (code !== 0xab) fail(`breakpoint ${code}`);
  core.registers[0] = semihosting(core.registers[0] >>> 0, core.registers[1] >>> 0) | 0;
};

// ---- Console and link ----

let line = '';
rp2040.uart[0].onByte = (byte) => {
  if (byte === 10) {
    console.log(line);
    line = '';
  } else if (byte !== 13) {
    line += String.fromCharCode(byte);
  }
};

const typed = [];
process.stdin.on('data', (bytes) => {
  typed.push(...bytes);
  if (wake) wake();
});
process.stdin.on('error', () => {});

function feedConsole() {
  while (typed.length > 0 && !rp2040.uart[0].rxFIFO.full) rp2040.uart[0].feedByte(typed.shift());
}

const link = rp2040.uart[1];
let socket = null;
let received = []; // buffers that the UART has not taken
let sent = [];
let wake = null; // ends the wait of a sleeping processor
link.onByte = (byte) => sent.push(byte);

function connect() {
  const colon = options.link.lastIndexOf(':');
  const next = net.connect(Number(options.link.slice(colon + 1)), options.link.slice(0, colon));
  next.setNoDelay(true);
  next.on('connect', () => {
    socket = next;
  });
  next.on('data', (bytes) => {
    received.push(bytes);
    if (wake) wake();
  });
  next.on('error', () => {});
  next.on('close', () => {
    socket = null;
    setTimeout(connect, RECONNECT_MS);
  });
}

function feedLink() {
  while (received.length > 0 && !link.rxFIFO.full) {
    link.feedByte(received[0][0]);
    received[0] = received[0].subarray(1);
    if (received[0].length === 0) received.shift();
  }
}

function flushLink() {
  if (sent.length > 0 && socket) socket.write(Buffer.from(sent)); // without a peer they are lost, as on a wire
  sent = [];
}

// ---- Time: a processor that sleeps waits in real time, at most to its next alarm ----

function sleep() {
  const begin = performance.now();
  const nanos = clock.nanosToNextAlarm;
  return new Promise((resolve) => {
    const end = (passed) => {
      clearTimeout(timer);
      wake = null;
      clock.tick(passed);
      resolve();
    };
    const timer = setTimeout(() => end(nanos), nanos / 1e6);
    wake = () => end(Math.min((performance.now() - begin) * 1e6, nanos));
  });
}

function cutPower() {
  flushLink(); // what the UART has sent is on the wire
  process.exit(POWER_CUT_STATUS);
}

async function run() {
  for (;;) {
    for (let i = 0; i < SLICE_INSTRUCTIONS && !core.waiting; i += TICK_INSTRUCTIONS) {
      let cycles = 0;
      let count = 0;
      const most = Math.min(TICK_INSTRUCTIONS, leftInstructions);
      for (; count < most && !core.waiting; count++) cycles += core.executeInstruction();
      leftInstructions -= count;
      if (leftInstructions === 0) cutPower();
      clock.tick(cycles * CYCLE_NANOS);
      if (isResetAsked) reset();
      if (received.length > 0) feedLink();
      if (typed.length > 0) feedConsole();
    }
    flushLink();
    feedLink();
    feedConsole();
    // What is left now found a full queue: it does not wake a processor that masks its interrupts.
    if (core.waiting) await sleep();
    else await new Promise((resolve) => setImmediate(resolve));
    if (isResetAsked) reset();
  }
}

loadElf(options.image);
for (const word of options.load) {
  const at = word.lastIndexOf('@');
  rp2040.flash.set(fs.readFileSync(word.slice(0, at)), Number(word.slice(at + 1)) - FLASH_BEGIN);
}
boot();
connect();
run();
