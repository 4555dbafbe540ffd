#include "firmware/device.h"

#include <algorithm>
#include <cstring>

#include "firmware/application.h"
#include "firmware/line.h"
#include "runtime/base/config.h"
#include "runtime/link/port.h"
#include "runtime/problem/measurement.h"

namespace gradstream {
namespace {

// Bytes taken from the session at once, on the stack.
constexpr size_t kReadSize = 256;
// Actions of one poll; more are left for the next one, so that a poll is short.
constexpr int kActionCountMax = 16;
constexpr uint64_t kFarMs = UINT64_MAX;
// Time that one poll gives to a local step before it looks after the link again. Reason: no user, link or watchdog
// notices it, and what a slice costs besides its work is nothing beside it.
constexpr uint32_t kSliceMs = 20;
// After a slice that took less the next one does twice the work. Reason: it then takes half of kSliceMs at most. How
// long a unit of work takes is found out anew for each step, from one unit on: at a step's end units are directions,
// which take less than samples.
constexpr uint32_t kSliceShortMs = 5;

constexpr char kSilent[] = "no answer to the handshake: is the server running, and is the link plugged in?";
constexpr char kFrameLate[] = "the peer stalled inside a frame";
constexpr char kNoAddress[] = "the server's name has no address: is it spelled right, and does the name service work?";
constexpr char kNoAnswer[] = "nothing answers there: is the address right, and does a firewall let it through?";
constexpr char kUnreachable[] = "the server cannot be reached: is it running, and are address and port right?";
constexpr char kTransportClosed[] = "the connection closed";
constexpr char kNotSaved[] =
    "the state cannot be stored: training goes on, but a reset now loses the work in progress; look at the storage";
// On a host: boards have neither options nor the flash for so many words.
constexpr const char* kNotCapable =
    kIsBareMetal
        ? "this image cannot do the run's tasks: the server's log says what it lacks"
        : "this client cannot do the run's tasks; device_not_capable in the server's log says what it lacks: for "
          "a problem start gradstream-client with --problem, or begin a run with another run.problem";
constexpr const char* kOtherNetwork =
    kIsBareMetal ? "the run trains another network: flash the run's (--network)"
                 : "the run trains another network than this device has: give it the run's file (--network)";

// Of ClientState, in its order.
constexpr const char* kStateNames[] = {"idle", "connect", "hello", "sync", "train", "save", "upload", "finished"};
static_assert(sizeof(kStateNames) / sizeof(kStateNames[0]) == static_cast<size_t>(ClientState::kFinished) + 1);

bool is_about_samples(gs_Reason reason) {
  return reason == gs_Reason_REASON_OUT_OF_RANGE || reason == gs_Reason_REASON_NOT_FINITE ||
         reason == gs_Reason_REASON_SINGULAR;
}

[[maybe_unused]] bool is_about_floor(gs_Reason reason) {
  return reason == gs_Reason_REASON_PRIVACY || reason == gs_Reason_REASON_UNITS_REFUSED;
}

uint32_t clock_ms() { return static_cast<uint32_t>(port_now_ms()); }

// About twice the size, at most all ones.
uint16_t larger(uint16_t size) { return static_cast<uint16_t>(2 * size + 1); }

const char* text_of_opening(Status status) {
  switch (status) {
    case Status::kInvalidArgument:
      return kNoAddress;
    case Status::kDeadlineExceeded:
      return kNoAnswer;
    default:
      return kUnreachable;
  }
}

}  // namespace

DeviceShell::DeviceShell(const DeviceConfig& config, Arena& arena) : config_(config), client_(config.client, arena) {}

DeviceCounters DeviceShell::counters() const {
  DeviceCounters counters = counters_;
  if (session_.is_begun()) {
    counters.bytes_sent += static_cast<uint32_t>(session_.wire_bytes_sent());
    counters.bytes_received += static_cast<uint32_t>(session_.wire_bytes_received());
  }
  return counters;
}

uint64_t DeviceShell::poll(uint64_t now_ms) {
  drive(now_ms);
  log_reason(client_.state());
  if (now_ms < held_until_ms_) {
    return std::min(held_until_ms_, link_wake_ms(now_ms));
  }
  uint64_t wake_ms = now_ms;
  const uint32_t begun_ms = clock_ms();
  uint32_t since_ms = begun_ms;
  if (!client_.is_step_open()) {
    slice_size_ = 1;
  }
  for (int i = 0; i < kActionCountMax; ++i) {
    const uint32_t steps = client_.counters().local_steps;
    const ClientState state = client_.state();
    client_.set_slice(slice_size_);
    const ClientAction action = client_.poll(now_ms);
    log_reason(state);
    const bool waits = action.kind == ClientActionKind::kWait;
    wake_ms = perform(action, now_ms);
    if (config_.step_delay_ms != 0 && client_.counters().local_steps != steps) {
      held_until_ms_ = port_now_ms() + config_.step_delay_ms;
      return held_until_ms_;
    }
    if (client_.is_step_open() && !(kAwaitsMeasurements && wake_ms > now_ms)) {  // else it waits for a measurement
      const uint32_t end_ms = clock_ms();
      slice_size_ = waits && end_ms - since_ms < kSliceShortMs ? larger(slice_size_) : slice_size_;
      since_ms = end_ms;
      if (end_ms - begun_ms >= kSliceMs) {
        return 0;
      }
      i = 0;
    } else if (waits || action.kind == ClientActionKind::kSaveStep) {
      break;  // between two steps the samples may change
    }
  }
  return std::min(wake_ms, link_wake_ms(now_ms));
}

// Each deadline that the client missed in that state, each reason that either end gave since the last call, and that
// the image lacks something for the run.
void DeviceShell::log_reason(ClientState state) {
  const ClientCounters& counters = client_.counters();
  const uint32_t version = client_.replica().has_model() ? client_.replica().version() : 0;
  const gs_Reason reason = client_.last_reason();
  if (counters.deadlines_missed != deadlines_logged_) {
    const char* name = kStateNames[static_cast<size_t>(state)];
    ConsoleLine line("deadline");
    line.word("state", name).number("version", version);
    if (state == ClientState::kConnect && config_.transport.peer != nullptr) {
      line.word("server", config_.transport.peer).quoted("reason", kNoAnswer);
    }
    port_log_line(line.c_str());
  } else if (counters.reasons != reasons_logged_ && reason != gs_Reason_REASON_NONE) {
    log_refusal(reason, version);
  }
  // Data that do not fit have a line of their own.
  const bool is_data = reason == gs_Reason_REASON_WRONG_SHAPE || client_.sample_fault().what != nullptr;
  const bool is_incapable = client_.last_wait() == gs_WaitCause_WAIT_CAUSE_NOT_CAPABLE && !is_data;
  if (is_incapable && !is_incapacity_logged_) {
    log_incapacity();
  }
  is_incapacity_logged_ = is_incapable;
  if (counters.steps_replayed != replays_logged_) {
    port_log_line(ConsoleLine("resumed").number("steps", counters.steps_replayed).number("version", version).c_str());
  }
  replays_logged_ = counters.steps_replayed;
  deadlines_logged_ = counters.deadlines_missed;
  reasons_logged_ = counters.reasons;
}

void DeviceShell::log_incapacity() const {
  ConsoleLine line("not_capable");
  if (const uint64_t wanted = client_.missing_network(); wanted != 0) {
    line.hex("network", config_.client.network_digest).hex("wanted", wanted).quoted("reason", kOtherNetwork);
  } else {
    line.quoted("reason", kNotCapable);
  }
  port_log_line(line.c_str());
}

// With the numbers that decided it, and what to change, as far as either end knows them.
void DeviceShell::log_refusal(gs_Reason reason, uint32_t version) const {
  const SampleFault& fault = client_.sample_fault();
  const RangeRefusal& range = client_.range_refusal();
  const bool is_sample = !kIsBareMetal && fault.what != nullptr && is_about_samples(reason);
  ConsoleLine line(is_sample ? "bad_sample" : "refused");
  line.word("reason", reason_name(reason)).number("version", version);
  if constexpr (kIsBareMetal) {
    line.word("see", "the_server's_log");
  } else if (is_about_floor(reason)) {
    const FloorFault& floor = client_.floor_fault();
    line.word("floor", floor_name(static_cast<gs_Floor>(floor.floor)));
    if (floor.least < floor.most) {
      const auto whole = [](float value) { return static_cast<uint64_t>(value); };  // as all numbers that have a floor
      line.number("value", whole(floor.value)).number("least", whole(floor.least)).number("most", whole(floor.most));
    }
    line.word("see", "docs/trust.md");
  } else if (is_sample && fault.sample == SampleFault::kNone) {
    line.text(" text=\"no sample is left to train on; the run wants 1 or more that are not held out\"");
  } else if (is_sample) {
    const uint64_t sample = uint64_t{fault.sample} + 1;  // from 1, as the lines of a file are counted
    line.number("sample", sample).text(" text=\"sample ").digits(sample).text(" (from 1)");
    if (fault.least < fault.most) {
      line.text(" has the ").text(fault.what).text(" ").real(fault.value).text("; ").text(client_.problem_name());
      const bool is_sum = std::strcmp(fault.what, "value") == 0;  // of the stages SUMS and SQUARES
      line.text(is_sum ? " sums numbers between " : " takes whole numbers from ")
          .real(fault.least)
          .text(is_sum ? " and " : " to ")
          .real(fault.most)
          .text("\"");
    } else {
      line.text(" is no ").text(fault.what).text("\"");
    }
  } else if (reason == gs_Reason_REASON_OUT_OF_RANGE && range.limit > 0) {
    line.text(" value=").real(range.value).text(" limit=").real(range.limit);
    line.text(" remedy=\"begin a run with");
    if (range.fold_scale_log2 > 0) {
      line.text(" fold_scale_log2 = ").digits(range.fold_scale_log2 - 1);
    }
    if (range.step_size > 0) {
      line.text(range.fold_scale_log2 > 0 ? " and step_size = " : " step_size = ").real(range.step_size);
    }
    line.text(range.fold_scale_log2 > 0 || range.step_size > 0 ? "\"" : " smaller data\"");
  }
  port_log_line(line.c_str());
}

// Returns when the client wants to be polled again.
uint64_t DeviceShell::perform(const ClientAction& action, uint64_t now_ms) {
  switch (action.kind) {
    case ClientActionKind::kWait:
      return std::max(action.wake_ms, now_ms);
    case ClientActionKind::kConnect:
      connect(now_ms);
      break;
    case ClientActionKind::kSend:
      sending_ = action.bytes;
      if (link_ != Link::kUp) {
        client_.on_connection_lost(Status::kClosed, now_ms);
      } else if (!push_frame(now_ms)) {
        return kFarMs;
      }
      break;
    case ClientActionKind::kDisconnect:
      drop();
      break;
    case ClientActionKind::kSave:
      client_.on_saved(save(action), now_ms);
      break;
    case ClientActionKind::kSaveStep:
      if (port_step_write(action.step_index, action.pieces.data(), action.pieces.size()) != Status::kOk) {
        port_log_line("event=step_not_kept reason=\"the flash or its supply failed; a reset now repeats the task\"");
      }
      break;
  }
  return now_ms;
}

// The first failure and the recovery from it are logged; the client counts all.
Status DeviceShell::save(const ClientAction& action) {
  const std::span<const StoragePiece> pieces = action.pieces;
  const Status status = kUsesModel ? write_state(pieces) : port_storage_write(pieces.data(), pieces.size());
  const bool is_failed = status != Status::kOk;
  if (is_failed && !is_storage_failed_) {
    port_log_line(ConsoleLine("state_not_saved").quoted("reason", kNotSaved).c_str());
  } else if (!is_failed && is_storage_failed_) {
    port_log_line(ConsoleLine("state_saved").number("failures", client_.counters().save_failures).c_str());
  }
  is_storage_failed_ = is_failed;
  return status;
}

void DeviceShell::save_state() {
  ClientAction action;
  action.pieces = client_.state_pieces();
  if (!action.pieces.empty()) {
    static_cast<void>(save(action));
  }
}

void DeviceShell::fill_report() {
  const DeviceCounters counters = this->counters();
  gs_StatusReport& report = client_.report();
  report.tls_high_water = static_cast<uint32_t>(tls_high_water_size());
  report.bytes_sent = counters.bytes_sent;
  report.bytes_received = counters.bytes_received;
}

void DeviceShell::connect(uint64_t now_ms) {
  drop();
#if !defined(GS_BARE_METAL)
  if (config_.keys != nullptr) {
    config_.keys->on_connecting();
  }
#endif
  if (config_.transport.ops->can_dial) {
    link_ = Link::kOpening;
  } else {
    link_ = Link::kQuiet;
    quiet_since_ms_ = now_ms;
  }
  drive(now_ms);
}

// Ends the session, if there is one, without a word to the client.
void DeviceShell::drop() {
  const bool was_open = link_ != Link::kDown;
  link_ = Link::kDown;
  sending_ = {};
#if !defined(GS_BARE_METAL)
  key_frame_ = {};
#endif
  if (session_.is_begun()) {
    session_.end();
    counters_.bytes_sent += static_cast<uint32_t>(session_.wire_bytes_sent());
    counters_.bytes_received += static_cast<uint32_t>(session_.wire_bytes_received());
  }
  if (was_open) {
    config_.transport.ops->close(config_.transport.context);
  }
  reader_.reset();
}

void DeviceShell::lose(Status reason, const char* text, uint64_t now_ms) {
  ++counters_.link_faults;
  const char* const own = *config_.transport.fault_text;
  text = own != nullptr ? own : text;
  fault_text_ = text;
  ConsoleLine line("link_lost");
  line.quoted("reason", text);
  if (session_.is_begun() && session_.last_alert() >= 0) {
    line.number("alert", static_cast<uint64_t>(session_.last_alert()));
  }
  if (config_.transport.peer != nullptr) {
    line.word("server", config_.transport.peer);
  }
  port_log_line(line.c_str());
  drop();
  client_.on_connection_lost(reason, now_ms);
}

void DeviceShell::drive(uint64_t now_ms) {
  switch (link_) {
    case Link::kDown:
      break;
    case Link::kQuiet:
      drive_quiet(now_ms);
      break;
    case Link::kOpening:
      drive_opening(now_ms);
      break;
    case Link::kHandshake:
      drive_handshake(now_ms);
      break;
    case Link::kUp:
      drive_up(now_ms);
      break;
  }
}

void DeviceShell::drive_quiet(uint64_t now_ms) {
  uint8_t discarded[kReadSize];
  for (;;) {
    const Result<size_t> count = config_.transport.ops->read(config_.transport.context, discarded, kReadSize);
    if (!count.ok()) {
      break;
    }
    quiet_since_ms_ = now_ms;
  }
  if (now_ms - quiet_since_ms_ >= kLinkQuietMs) {
    link_ = Link::kOpening;
    drive_opening(now_ms);
  }
}

void DeviceShell::drive_opening(uint64_t now_ms) {
  const Status status = config_.transport.ops->open(config_.transport.context);
  if (status == Status::kWouldBlock) {
    return;
  }
  if (status != Status::kOk) {
    lose(status, text_of_opening(status), now_ms);
    return;
  }
  begin_handshake(now_ms);
}

void DeviceShell::begin_handshake(uint64_t now_ms) {
  ++counters_.handshakes;
  handshake_since_ms_ = now_ms;
#if defined(GS_BARE_METAL)
  const Status status = session_.begin(config_.transport, config_.identity, config_.key_exchange);
#else
  const Identity& identity = config_.keys != nullptr ? config_.keys->identity() : config_.identity;
  const Status status = config_.credentials != nullptr
                            ? session_.begin(config_.transport, *config_.credentials, config_.server_name)
                            : session_.begin(config_.transport, identity, config_.key_exchange);
#endif
  if (status != Status::kOk) {
    lose(status, session_.last_fault_text(), now_ms);
    return;
  }
  link_ = Link::kHandshake;
  drive_handshake(now_ms);
}

void DeviceShell::drive_handshake(uint64_t now_ms) {
  const size_t sent = session_.wire_bytes_sent();
  const Status status = session_.handshake();
  if (status == Status::kWouldBlock) {
    if (session_.wire_bytes_sent() != sent) {
      handshake_since_ms_ = now_ms;  // a slow link is not a silent one
    }
    const bool silent = session_.wire_bytes_received() == 0 && now_ms - handshake_since_ms_ >= kLinkSilenceMs;
    if (silent && !config_.transport.ops->can_dial) {
      lose(Status::kDeadlineExceeded, kSilent, now_ms);
    }
    return;
  }
#if !defined(GS_BARE_METAL)
  if (status == Status::kUnauthenticated && retry_by_other_key(now_ms)) {
    return;
  }
#endif
  if (status != Status::kOk) {
    lose(status, session_.last_fault_text(), now_ms);
    return;
  }
#if !defined(GS_BARE_METAL)
  if (config_.keys != nullptr) {
    config_.keys->on_connected();
  }
#endif
  link_ = Link::kUp;
  fault_text_ = "";
  fill_report();
  discarded_size_ = reader_.discarded_size();
  client_.on_connected(now_ms);
}

#if !defined(GS_BARE_METAL)
// The server takes a refused connection for over, so this is another one; the client's deadline covers both.
bool DeviceShell::retry_by_other_key(uint64_t now_ms) {
  if (config_.keys == nullptr || !config_.keys->on_refused()) {
    return false;
  }
  ++counters_.link_faults;
  drop();
  link_ = Link::kOpening;
  drive_opening(now_ms);
  return true;
}

// Between two frames of the client. false: the session is over.
bool DeviceShell::push_key_frame(uint64_t now_ms) {
  if (config_.keys == nullptr || !sending_.empty()) {
    return true;
  }
  if (key_frame_.empty()) {
    key_frame_ = config_.keys->frame_due();
  }
  if (key_frame_.empty()) {
    return true;
  }
  const Status status = session_.write(key_frame_.data(), key_frame_.size()).status();  // all of a frame, or nothing
  if (status == Status::kOk) {
    key_frame_ = {};
  } else if (status != Status::kWouldBlock) {
    lose(status, session_.last_fault_text(), now_ms);
    return false;
  }
  return true;
}
#endif

// Hands the client's frame to the session. true: the client was told.
bool DeviceShell::push_frame(uint64_t now_ms) {
  while (!sending_.empty()) {
    const Result<size_t> count = session_.write(sending_.data(), sending_.size());
    if (count.status() == Status::kWouldBlock) {
      return false;
    }
    if (!count.ok()) {
      lose(count.status(), session_.last_fault_text(), now_ms);
      return true;
    }
    sending_ = sending_.subspan(count.value());
  }
  client_.on_sent(now_ms);
  return true;
}

// false: the session is over, or the client has to close it first.
bool DeviceShell::take_frames(std::span<const uint8_t> bytes, uint64_t now_ms) {
  while (!bytes.empty()) {
    const bool was_in_frame = reader_.in_frame();
    bytes = bytes.subspan(reader_.feed(bytes));
    if (!was_in_frame && reader_.in_frame()) {
      frame_since_ms_ = now_ms;
    }
    if (reader_.discarded_size() != discarded_size_) {
      discarded_size_ = reader_.discarded_size();
      client_.on_malformed(now_ms);
      return false;
    }
    if (reader_.has_frame()) {
#if !defined(GS_BARE_METAL)
      const bool is_taken = config_.keys != nullptr && config_.keys->take(reader_.payload());
#else
      constexpr bool is_taken = false;
#endif
      if (!is_taken) {
        client_.on_frame(reader_.payload(), now_ms);
      }
      reader_.pop();
    }
  }
  return true;
}

void DeviceShell::drive_up(uint64_t now_ms) {
  if (!sending_.empty() && push_frame(now_ms) && link_ != Link::kUp) {
    return;
  }
  uint8_t bytes[kReadSize];
  for (;;) {
    const Result<size_t> count = session_.read(bytes, sizeof(bytes));
    if (count.status() == Status::kWouldBlock) {
      break;
    }
    if (!count.ok()) {
      const char* text = session_.last_fault_text();
      lose(count.status(), *text != '\0' ? text : kTransportClosed, now_ms);
      return;
    }
    if (!take_frames({bytes, count.value()}, now_ms)) {
      return;
    }
  }
#if !defined(GS_BARE_METAL)
  if (!push_key_frame(now_ms)) {
    return;
  }
#endif
  if (reader_.in_frame() && now_ms - frame_since_ms_ >= kFrameDeadlineMs) {
    ++counters_.frame_deadlines;
    lose(Status::kDeadlineExceeded, kFrameLate, now_ms);
  }
}

// The link's own deadlines; news on it wake the board anyway.
uint64_t DeviceShell::link_wake_ms(uint64_t now_ms) const {
  switch (link_) {
    case Link::kQuiet:
      return std::max(quiet_since_ms_ + kLinkQuietMs, now_ms + 1);
    case Link::kHandshake:
      return config_.transport.ops->can_dial ? kFarMs : std::max(handshake_since_ms_ + kLinkSilenceMs, now_ms + 1);
    case Link::kUp:
      return reader_.in_frame() ? std::max(frame_since_ms_ + kFrameDeadlineMs, now_ms + 1) : kFarMs;
    case Link::kDown:
    case Link::kOpening:
      break;
  }
  return kFarMs;
}

}  // namespace gradstream
