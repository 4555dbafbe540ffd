#include "firmware/console.h"

#include <cstring>

#include "runtime/base/crc32c.h"
#include "runtime/base/products.h"
#include "runtime/base/random.h"
#include "runtime/link/port.h"

namespace gradstream {
namespace {

// Of gs_link and gs_state, in their order.
constexpr const char* kLinkNames[] = {"down", "quiet", "opening", "open", "open"};
constexpr const char* kTlsNames[] = {"none", "none", "none", "handshake", "up"};
constexpr const char* kStateNames[] = {"idle", "connect", "hello", "sync", "train", "save", "upload", "finished"};
static_assert(sizeof(kTlsNames) / sizeof(kTlsNames[0]) == GS_LINK_UP + 1);
static_assert(sizeof(kStateNames) / sizeof(kStateNames[0]) == GS_FINISHED + 1);

// kOk: the source answered, and not twice the same.
Status check_random() {
  uint8_t first[16] = {}, second[16] = {};
  GS_TRY(port_random_bytes(first, sizeof(first)));
  GS_TRY(port_random_bytes(second, sizeof(second)));
  return std::memcmp(first, second, sizeof(first)) != 0 ? Status::kOk : Status::kDataCorrupt;
}

const char* verdict(Status status) {
  switch (status) {
    case Status::kOk:
      return "ok";
    case Status::kUnimplemented:
      return "none";
    default:
      return "failed";
  }
}

}  // namespace

uint32_t arithmetic_digest() {
  constexpr size_t kCount = 32;
  Real x[kCount], y[kCount];
  RandomStream stream({.seed = 1, .domain = RandomDomain::kInitialPoint});
  for (size_t i = 0; i < kCount; ++i) {
    x[i] = static_cast<Real>(static_cast<int32_t>(stream.next()) >> 8) / Real{8388608};
    y[i] = static_cast<Real>(static_cast<int32_t>(stream.next()) >> 8) / Real{8388608};
  }
  for (int turn = 0; turn < 4; ++turn) {
    scale(kCount, 1 / norm2(kCount, x), x);
    add_scaled(kCount, dot(kCount, x, y), x, y);
    add(kCount, x, y, x);
  }
  return crc32c(0, reinterpret_cast<const uint8_t*>(x), sizeof(x));
}

ConsoleLine device_line(const char* event, const gs_status_view& status, const char* firmware_version,
                        const char* reset_cause) {
  ConsoleLine line(event);
  line.word("device", status.device).word("firmware", firmware_version).word("reset", reset_cause);
  line.word("server", status.server != nullptr ? status.server : "serial");
  line.word("link", kLinkNames[status.link]).word("tls", kTlsNames[status.link]);
  return line;
}

void Console::poll() {
  uint8_t byte = 0;
  while (port_.read(&byte)) {
    const ShellCommand command = shell_.feed(byte);
    if (command != ShellCommand::kNone) {
      answer(command);
      return;
    }
  }
}

void Console::answer(ShellCommand command) const {
  switch (command) {
    case ShellCommand::kStatus:
      return answer_status();
    case ShellCommand::kTest:
      return answer_test();
    case ShellCommand::kResetIdentity:
      return reset_identity();
    case ShellCommand::kAskReset:
      return port_log_line("event=asked text=\"name and key will be erased: yes?\"");
    case ShellCommand::kKeep:
      return port_log_line("event=identity_kept");
    case ShellCommand::kTooLong:
      port_log_line("event=line_too_long");
      break;
    case ShellCommand::kUnknown:
      if (port_.own_command != nullptr && port_.own_command(shell_.line())) {
        return;
      }
      port_log_line("event=unknown_command");
      break;
    default:
      break;
  }
  port_log_line("event=help commands=\"status, test, reset identity, help\"");
}

void Console::answer_status() const {
  gs_status_view status;
  status.size = sizeof status;
  gs_status(&status);
  port_log_line(device_line("status", status, firmware_version_, reset_cause_).c_str());
  ConsoleLine model("status_model");
  model.word("state", kStateNames[status.state]).number("version", status.version).hex("digest", status.digest);
  model.number("round", status.version + (status.run_finished || status.digest == 0 ? 0 : 1));
  model.number("folded", status.updates_folded).quoted("last_fault", status.last_fault);
  port_log_line(model.c_str());
}

void Console::answer_test() const {
  const Status random = check_random();
  const Status arithmetic = arithmetic_digest() == kArithmeticDigest ? Status::kOk : Status::kDataCorrupt;
  const Status flash = port_.check_storage();
  const bool is_good =
      random == Status::kOk && arithmetic == Status::kOk && (flash == Status::kOk || flash == Status::kUnimplemented);
  ConsoleLine line("test");
  line.word("random", verdict(random)).word("arithmetic", verdict(arithmetic)).word("flash", verdict(flash));
  port_log_line(line.word("result", is_good ? "ok" : "failed").c_str());
}

// Does not return when it succeeds.
void Console::reset_identity() const {
  port_log_line("event=identity_reset");
  ConsoleLine line("failed");
  line.quoted("reason", port_.wipe_identity() == Status::kUnimplemented ? "no flash driver: write the page anew"
                                                                        : "the flash does not erase");
  port_log_line(line.c_str());
}

}  // namespace gradstream
