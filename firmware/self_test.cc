#include "runtime/base/no_contraction.h"

#include "firmware/self_test.h"

#include <algorithm>
#include <cstring>

#include "boards/entropy_health.h"
#include "boards/flash_log.h"
#include "cmake/x25519_driver.h"
#include "firmware/report_lines.h"
#include "runtime/base/arithmetic.h"
#include "runtime/base/fusing.h"
#include "runtime/base/random.h"
#include "runtime/problem/problem.h"
#include "runtime/training/solver.h"

namespace gradstream {
namespace {

// Work is repeated until it has taken so long, ms. Reason: a clock of milliseconds then errs by 2 % at most.
constexpr uint64_t kMeasureMs = 50;
constexpr uint32_t kRepeatMax = 2000;
// The cycle counter is compared with the clock for so long, ms. Reason: 24 bits wrap after 20 ms only above 800 MHz.
constexpr uint64_t kCalibrateMs = 20;
// Looks at the clock before it counts as standing still. Reason: a look takes 5 cycles or more, so a millisecond at
// 1 GHz has at most 200,000.
constexpr uint32_t kTickLookCountMax = 1000000;
// Raw bytes that are judged. Reason: of a uniform source the most common of 256 values is then found to 0.3 bits.
constexpr uint32_t kEntropySize = 8192;
// What is programmed and timed, bytes: a page of a serial flash.
constexpr uint32_t kProgramSize = 256;

constexpr Shape kShape = {64, 4};
constexpr uint32_t kSampleCount = 32;
constexpr uint32_t kLocalStepCount = 5;

// Microseconds of one of `count` pieces of work that took so many ms together.
uint64_t micros_of(uint64_t elapsed_ms, uint32_t count) { return elapsed_ms * 1000 / count; }

// The next tick of the clock; the time as it was where the clock stands still.
uint64_t wait_for_tick(const SelfTestBoard& board) {
  const uint64_t begin_ms = board.now_ms();
  uint64_t now_ms = begin_ms;
  for (uint32_t look = 0; now_ms == begin_ms && look < kTickLookCountMax; ++look) {
    now_ms = board.now_ms();
  }
  return now_ms;
}

// Microseconds that work() takes.
template <typename Work>
uint64_t measure(const SelfTestBoard& board, Work work) {
  const uint64_t begin_ms = wait_for_tick(board);
  uint64_t elapsed_ms = 0;
  uint32_t count = 0;
  while (elapsed_ms < kMeasureMs && count < kRepeatMax) {
    board.feed();
    work();
    ++count;
    elapsed_ms = board.now_ms() - begin_ms;
  }
  return micros_of(elapsed_ms, count);
}

void report_processor(const SelfTestBoard& board, ReportLines& report) {
  for (const ProcessorWord& word : board.processor) {
    report.hex(word.name, word.value, 8);
  }
  if (board.cycles.name == nullptr) {
    report.none("cycle_counter");
    return;
  }
  report.text("cycle_counter", board.cycles.name);
  const uint64_t begin_ms = wait_for_tick(board);
  const uint32_t begin = board.cycles.read();
  uint64_t elapsed_ms = 0;
  bool runs = true;
  while (runs && elapsed_ms < kCalibrateMs) {
    const uint64_t next_ms = wait_for_tick(board) - begin_ms;
    runs = next_ms > elapsed_ms;
    elapsed_ms = next_ms;
  }
  const uint64_t count = (board.cycles.read() - begin) & board.cycles.mask;
  report.number("cycles_per_second", elapsed_ms == 0 ? 0 : count * 1000 / elapsed_ms);
}

// ---- Arithmetic ----

void report_digest(const SelfTestBoard& board, uint32_t nonce, DigestWork& work, ReportLines& report) {
  report.number("subnormals", keeps_subnormals() ? 1 : 0);
  report.number("fused", fuses_products() ? 1 : 0);
  hash_device_parts(work, board.feed);
  report.hex("digest", work.total(), 16);
  report.number("nonce", nonce);
  report.hex("challenge", challenge_hash(work, nonce), 16);
}

// ---- Time ----

// Steps of the projection algorithm over bytes, as ./run bench device counts them: 16 directions, a batch of 32.
struct Steps {
  SampleBytes bytes;
  SampleSource source = {nullptr, kSampleCount, kShape.rows, nullptr, &bytes};
  Problem problem = {&kKpcaOps, &source};
  Task task;
};

void begin_steps(DigestWork& work, Steps& steps, SolverRun* run) {
  static constexpr const ManifoldOps* kManifolds[] = {&kStiefelOps};
  static constexpr const EstimatorOps* kEstimators[] = {&kProjectionOneSidedOps};
  static constexpr const SolverOps* kSolvers[] = {&kSolverProjectionOps};
  const Registry registry = {kManifolds, kEstimators, kSolvers, {&steps.problem, 1}};
  require(begin_solver(registry, steps.task, work.x, nullptr, run, work.arena));
}

void prepare_steps(DigestWork& work, Steps& steps) {
  const Result<uint8_t*> values = work.arena.persistent<uint8_t>(kSampleCount * kShape.rows);
  require(values.status());
  RandomStream stream({.seed = 6});
  for (uint32_t i = 0; i < kSampleCount * kShape.rows; ++i) {
    values.value()[i] = static_cast<uint8_t>(stream.next() >> 24);
  }
  steps.bytes = {values.value(), nullptr, 0x1p-7F};
  fill_point(work, kStiefelOps, kShape, 7, work.x);
  Task& task = steps.task;
  task.sequence = task.version = 1;
  task.solver = SolverId::kProjection;
  task.manifold = ManifoldId::kStiefel;
  task.shape = kShape;
  task.estimator.id = EstimatorId::kProjectionOneSided;
  task.estimator.batch_mode = BatchMode::kCommon;
  task.estimator.batch_size = kSampleCount;
  task.estimator.smoothing = 0.01F;
  task.estimator.directions.direction_count = ReplaySpec::kDirectionCount;
  task.seed = 7;
  task.local_step_count = kLocalStepCount;
  task.step_size = 0.02F;
  task.encoding = Encoding::kF32;
  std::strcpy(task.problem, "kpca");
}

uint64_t step_micros(const SelfTestBoard& board, DigestWork& work) {
  Steps steps;
  prepare_steps(work, steps);
  SolverRun run;
  const size_t mark = work.arena.mark();
  begin_steps(work, steps, &run);
  const uint64_t micros = measure(board, [&] {
    if (run.steps_done == kLocalStepCount) {
      work.arena.release(mark);
      begin_steps(work, steps, &run);
    }
    require(run_step(run, work.arena));
  });
  work.arena.reset();
  return micros;
}

// A record of 80 scalars into a replica: what a device does for each version.
uint64_t record_micros(const SelfTestBoard& board, DigestWork& work) {
  fill_point(work, kStiefelOps, kShape, 8, work.x);
  fill_values(9, 0, ReplaySpec::kScalarCount, 1, work.v);
  const DirectionSpec directions = {.seed = 9, .direction_count = ReplaySpec::kDirectionCount};
  Replica replica;
  require(replica.prepare(kStiefelOps, kShape, work.arena));
  std::copy_n(work.x, kShape.size(), replica.begin_snapshot());
  replica.adopt_snapshot(0);
  const uint64_t micros = measure(board, [&] {
    require(replica.begin_record());
    require(replica.add_to_record(directions, 0, ReplaySpec::kScalarCount, work.v, work.arena));
    require(replica.finish_record(ReplaySpec::kDirectionCount, 0.01F, work.arena));
  });
  work.arena.reset();
  return micros;
}

// One agreement of X25519 with the keys of RFC 7748, section 6.1; Alice's is clamped, as a private key is stored.
bool agrees() {
  static constexpr uint8_t kAlice[] = {0x70, 0x07, 0x6d, 0x0a, 0x73, 0x18, 0xa5, 0x7d, 0x3c, 0x16, 0xc1,
                                       0x72, 0x51, 0xb2, 0x66, 0x45, 0xdf, 0x4c, 0x2f, 0x87, 0xeb, 0xc0,
                                       0x99, 0x2a, 0xb1, 0x77, 0xfb, 0xa5, 0x1d, 0xb9, 0x2c, 0x6a};
  static constexpr uint8_t kBob[] = {0xde, 0x9e, 0xdb, 0x7d, 0x7b, 0x7d, 0xc1, 0xb4, 0xd3, 0x5b, 0x61,
                                     0xc2, 0xec, 0xe4, 0x35, 0x37, 0x3f, 0x83, 0x43, 0xc8, 0x5b, 0x78,
                                     0x67, 0x4d, 0xad, 0xfc, 0x7e, 0x14, 0x6f, 0x88, 0x2b, 0x4f};
  static constexpr uint8_t kShared[] = {0x4a, 0x5d, 0x9d, 0x5b, 0xa4, 0xce, 0x2d, 0xe1, 0x72, 0x8e, 0x3b,
                                        0xf4, 0x80, 0x35, 0x0f, 0x25, 0xe0, 0x7e, 0x21, 0xc9, 0x47, 0xd1,
                                        0x9e, 0x33, 0x76, 0xf0, 0x9b, 0x3c, 0x1e, 0x16, 0x17, 0x42};
  psa_key_attributes_t attributes = PSA_KEY_ATTRIBUTES_INIT;
  psa_set_key_type(&attributes, PSA_KEY_TYPE_ECC_KEY_PAIR(PSA_ECC_FAMILY_MONTGOMERY));
  psa_set_key_bits(&attributes, 255);
  uint8_t out[sizeof(kShared)] = {};
  size_t size = 0;
  const psa_status_t status = gs_x25519_key_agreement(&attributes, kAlice, sizeof(kAlice), PSA_ALG_ECDH, kBob,
                                                      sizeof(kBob), out, sizeof(out), &size);
  return status == PSA_SUCCESS && size == sizeof(out) && std::equal(out, out + sizeof(out), kShared);
}

void report_times(const SelfTestBoard& board, DigestWork& work, ReportLines& report) {
  report.number("step_us", step_micros(board, work));
  report.number("record_us", record_micros(board, work));
  bool is_right = true;
  report.number("x25519_us", measure(board, [&] { is_right = agrees() && is_right; }));
  report.text("x25519", is_right ? "ok" : "wrong");
}

// ---- Flash ----

// Whether a state that a log wrote is found again by another log, as after a reset.
bool keeps_slot(const FlashOps& flash) {
  const uint8_t state[] = {'g', 'r', 'a', 'd', 's', 't', 'r', 'e', 'a', 'm', 1, 2, 3};
  const StoragePiece piece = {state, sizeof(state)};
  FlashLog writer(flash);
  if (writer.open() != Status::kOk || writer.write_state(&piece, 1) != Status::kOk) {
    return false;
  }
  FlashLog reader(flash);
  uint8_t found[sizeof(state)] = {};
  return reader.open() == Status::kOk && reader.read_state(found, sizeof(found)) == sizeof(state) &&
         std::equal(found, found + sizeof(state), state) && reader.check() == Status::kOk;
}

bool is_erased(const FlashOps& flash, uint32_t page, uint8_t* buffer) {
  for (uint32_t offset = 0; offset < flash.page_size(); offset += kProgramSize) {
    flash.read(page, offset, buffer, kProgramSize);
    if (std::any_of(buffer, buffer + kProgramSize, [](uint8_t byte) { return byte != 0xFF; })) {
      return false;
    }
  }
  return true;
}

// Feeds after each page. Reason: an erase takes up to half of a watchdog's time (boards/stm32f405/flash.cc).
bool erase_both(const SelfTestBoard& board, const FlashOps& flash) {
  bool is_done = true;
  for (uint32_t page = 0; page < kFlashPageCount; ++page) {
    is_done = flash.erase(page) == Status::kOk && is_done;
    board.feed();
  }
  return is_done;
}

void report_flash(const SelfTestBoard& board, DigestWork& work, ReportLines& report) {
  if (board.flash == nullptr) {
    report.none("flash");
    return;
  }
  const FlashOps& flash = *board.flash;
  const ScratchScope scope(work.arena);
  const Result<uint8_t*> buffers = work.arena.scratch<uint8_t>(2 * kProgramSize);
  require(buffers.status());
  uint8_t* const buffer = buffers.value();
  report.number("flash", kFlashPageCount);
  report.number("flash_page_size", flash.page_size());
  report.text("flash_power", flash.is_power_good() ? "good" : "low");
  uint64_t begin_ms = wait_for_tick(board);
  bool is_good = flash.erase(0) == Status::kOk;
  report.number("flash_erase_ms", board.now_ms() - begin_ms);
  board.feed();
  is_good = is_good && is_erased(flash, 0, buffer);
  for (uint32_t i = 0; i < kProgramSize; ++i) {
    buffer[i] = static_cast<uint8_t>(151 * i + 7);
  }
  // Places of a page one after the other: each is programmed once between two erases.
  uint32_t offset = 0;
  const uint32_t end = std::min<uint32_t>(flash.page_size(), 64 * kProgramSize);
  begin_ms = wait_for_tick(board);
  for (; offset < end; offset += kProgramSize) {
    is_good = flash.program(0, offset, buffer, kProgramSize) == Status::kOk && is_good;
  }
  report.number("flash_program_us", micros_of(board.now_ms() - begin_ms, end / kProgramSize));
  board.feed();
  uint8_t* const read_back = buffer + kProgramSize;
  for (offset = 0; offset < end; offset += kProgramSize) {
    flash.read(0, offset, read_back, kProgramSize);
    is_good = is_good && std::equal(buffer, buffer + kProgramSize, read_back);
  }
  report.text("flash_read_back", is_good ? "ok" : "wrong");
  const bool is_kept = erase_both(board, flash) && keeps_slot(flash);
  board.feed();
  report.text("flash_slot", is_kept && erase_both(board, flash) ? "found" : "lost");
}

// ---- Random numbers ----

void report_entropy(const SelfTestBoard& board, std::span<uint16_t, 256> counts, ReportLines& report) {
  if (board.entropy.source == nullptr) {
    report.none("entropy");
    return;
  }
  constexpr size_t kChunkSize = 64;
  report.text("entropy", board.entropy.source);
  EntropyHealth health;
  uint32_t longest = 0, run = 0, taken = 0;
  bool last = false;
  std::fill(counts.begin(), counts.end(), uint16_t{0});
  uint8_t bytes[kChunkSize];
  while (taken < kEntropySize && board.entropy.read(bytes, kChunkSize) == Status::kOk) {
    board.feed();
    for (size_t i = 0; i < kChunkSize; ++i) {
      const uint8_t byte = bytes[i];
      ++counts[byte];
      for (int at = 0; at < 8; ++at) {
        const bool bit = (byte >> at & 1) != 0;
        run = bit == last ? run + 1 : 1;
        last = bit;
        longest = std::max(longest, run);
        (void)health.add(bit);
      }
    }
    taken += kChunkSize;
  }
  report.number("entropy_bytes", taken);
  report.number("entropy_most_common", *std::max_element(counts.begin(), counts.end()));
  report.number("entropy_longest_run", longest);
  report.text("entropy_health", taken == kEntropySize && !health.has_failed() ? "ok" : "failed");
}

void report_sizes(const SelfTestBoard& board, const DigestWork& work, ReportLines& report) {
  report.number("arena_used", work.arena.high_water_size());
  if (board.sizes.stack == 0) {
    report.none("stack");
    return;
  }
  report.number("stack", board.sizes.stack);
  report.number("stack_used", board.stack_used());
  report.number("ram", board.sizes.ram);
  report.number("ram_used", board.sizes.ram_used);
  report.number("image", board.sizes.flash);
  report.number("image_used", board.sizes.flash_used);
}

}  // namespace

void run_self_test(const SelfTestBoard& board, uint32_t nonce, SelfTestMemory* memory) {
  DigestWork& work = memory->work;
  ReportLines report(board.log);
  report.number("form", kReportForm);
  report.text("version", board.version);
  report.text("sources", board.sources);
  report.text("board", board.name);
  report.number("emulated", board.is_emulated ? 1 : 0);
  report_processor(board, report);
  report_digest(board, nonce, work, report);
  report_times(board, work, report);
  report_flash(board, work, report);
  report_entropy(board, memory->counts, report);
  report_sizes(board, work, report);
  report.end();
}

}  // namespace gradstream
