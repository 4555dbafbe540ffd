#include "firmware/claim_posix.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <vector>

#include <fcntl.h>
#include <mbedtls/platform_util.h>
#include <unistd.h>

#include "firmware/client_main.h"
#include "firmware/name_posix.h"
#include "host/durable_file.h"
#include "host/end_signals.h"
#include "host/file_cause.h"
#include "host/read_file.h"
#include "runtime/base/config.h"
#include "runtime/link/port.h"
#include "runtime/wire/claim.h"
#include "runtime/wire/codec.h"
#include "runtime/wire/frame.h"

namespace gradstream {
namespace {

namespace fs = std::filesystem;

// Between two looks at a link that has no news of its own.
constexpr uint64_t kTurnMs = 20;
// Between two words to the watchdog while nothing is to be done: a small part of any service manager's patience.
constexpr uint64_t kFeedPeriodMs = 10000;
constexpr uint32_t kBackOffDoublingMax = 3;
constexpr int kAlertAccessDenied = 49;
// Of a file, bytes. Reason: what `gradstream claim add` writes is far below it.
constexpr size_t kReadSizeMax = 65536;

int fail(int code, const std::string& reason) {
  port_log_line(failed_line(reason).c_str());
  return code;
}

// Why a file cannot be used, and the exit status of that.
struct FileFault {
  std::string text;  // empty: none
  int code = kExitIdentity;
};

// cause: errno.
FileFault path_problem(int cause, const std::string& path, const char* what, const char* remedy) {
  return {std::string("cannot ") + what + " " + path + ": " + cause_text(cause) + "; " + remedy_text(cause, remedy),
          is_temporary_at(cause, path.c_str()) ? kExitTemporary : kExitIdentity};
}

FileFault read_identity(const std::string& path, Identity* out) {
  std::vector<char> text;
  if (const int cause = read_file(path.c_str(), kReadSizeMax, &text); cause != 0) {
    return path_problem(cause, path, "read", "give the file that `gradstream claim add` wrote");
  }
  uint32_t line = 0;
  const Status status = parse_identity(text, out, &line);
  std::string problem = status == Status::kOk
                            ? std::string()
                            : path + identity_fault_text(text, line) + ": give the file that `gradstream` wrote";
  mbedtls_platform_zeroize(text.data(), text.size());
  return {problem};
}

// Under its name it is whole and durable.
FileFault store_identity(const std::string& path, const Identity& identity) {
  std::string text =
      "# gradstream device: keep this file secret, it is the device's key\nidentity = " + std::string(identity.name) +
      "\nkey = ";
  for (const uint8_t byte : identity.key) {
    constexpr char kDigits[] = "0123456789abcdef";
    text += {kDigits[byte >> 4], kDigits[byte & 15]};
  }
  text += "\n";
  const std::string part = path + ".part";
  const int file = ::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  int cause = file < 0 ? errno : write_durably(file, text.data(), text.size());
  mbedtls_platform_zeroize(text.data(), text.size());
  if (file >= 0) {
    ::close(file);
  }
  cause = cause == 0 ? rename_durably(part.c_str(), path.c_str()) : cause;
  if (cause == 0) {
    return {};
  }
  ::unlink(part.c_str());
  return path_problem(cause, path, "write", "name a folder that can be written with --identity");
}

// The identity to be: as an earlier attempt has stored it, or a new one.
FileFault prepare_identity(const std::string& path, const std::string& name, Identity* out) {
  if (fs::exists(path)) {
    FileFault problem = read_identity(path, out);
    if (problem.text.empty() && name != out->name) {
      return {path + " is of an attempt under the name " + out->name + ": go on with that one, or remove the file"};
    }
    return problem;
  }
  std::strncpy(out->name, name.c_str(), Identity::kNameSizeMax);
  if (port_random_bytes(out->key, sizeof out->key) != Status::kOk) {
    return {"no random bytes for a key", kExitNoEntropy};
  }
  return store_identity(path, *out);
}

void tell_alive(const ClaimRun& run) {
  if (run.feed_watchdog != nullptr) {
    run.feed_watchdog();
  }
}

// One session, from the connection to its end.
class Exchange {
 public:
  Exchange(const Identity& identity, const ClaimRun& run)
      : run_(run), transport_(port_transport()), deadline_ms_(port_now_ms() + kHandshakeDeadlineMs) {
    status_ = patiently([this] { return transport_.ops->open(transport_.context); });
    if (status_ == Status::kOk) {
      status_ = session_.begin(transport_, identity, run.key_exchange);
    }
    if (status_ == Status::kOk) {
      status_ = patiently([this] { return session_.handshake(); });
    }
  }
  ~Exchange() {
    session_.end();
    transport_.ops->close(transport_.context);
  }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // Of the handshake.
  Status status() const { return status_; }
  bool was_denied() const { return session_.last_alert() == kAlertAccessDenied; }
  const char* text() const { return session_.last_fault_text(); }

  Status claim(const Identity& wanted, gs_ClaimAnswer* answer) {
    uint8_t frame[kFrameSizeMax];
    const Result<size_t> size = encode_claim_request(wanted, frame);
    GS_TRY(size.status());
    deadline_ms_ = port_now_ms() + kAnswerDeadlineMs;
    GS_TRY(patiently([&] { return session_.write(frame, size.value()).status(); }));
    mbedtls_platform_zeroize(frame, sizeof frame);
    GS_TRY(patiently([this] { return session_.flush(); }));
    FrameReader reader;
    while (!reader.has_frame()) {
      Result<size_t> count = Status::kWouldBlock;
      GS_TRY(patiently([&] {
        count = session_.read(frame, sizeof frame);
        return count.status();
      }));
      for (size_t at = 0; at < count.value() && !reader.has_frame();) {
        at += reader.feed({frame + at, count.value() - at});
      }
    }
    return decode_claim_answer(reader.payload(), answer);
  }

 private:
  template <typename Step>
  Status patiently(Step&& step) {
    for (;;) {
      tell_alive(run_);
      const Status status = step();
      const uint64_t now_ms = port_now_ms();
      if (status != Status::kWouldBlock) {
        return status;
      }
      if (now_ms >= deadline_ms_ || end_signal() != 0) {
        return Status::kDeadlineExceeded;
      }
      port_sleep_until_ms(std::min(deadline_ms_, now_ms + kTurnMs));
    }
  }

  const ClaimRun& run_;
  Transport transport_;
  TlsSession session_;
  uint64_t deadline_ms_;
  Status status_ = Status::kOk;
};

enum class Attempt : uint8_t { kGranted, kRefused, kLater };

bool is_for_later(gs_Reason reason) {
  return reason == gs_Reason_REASON_STORAGE || reason == gs_Reason_REASON_OVERLOADED ||
         reason == gs_Reason_REASON_DEADLINE;
}

// *why: of a refusal, or what failed.
Attempt attempt(const ClaimRun& run, const Identity& claim, const Identity& wanted, std::string* why) {
  bool was_denied = false;
  {
    Exchange exchange(claim, run);
    gs_ClaimAnswer answer = {};
    if (exchange.status() == Status::kOk) {
      const Status status = exchange.claim(wanted, &answer);
      *why = status == Status::kOk ? reason_name(answer.reason) : status_text(status);
      if (status != Status::kOk || is_for_later(answer.reason)) {
        return Attempt::kLater;
      }
      return answer.reason == gs_Reason_REASON_NONE ? Attempt::kGranted : Attempt::kRefused;
    }
    *why = *exchange.text() != '\0' ? exchange.text() : status_text(exchange.status());
    was_denied = exchange.was_denied();
    if (exchange.status() != Status::kUnauthenticated) {
      return Attempt::kLater;
    }
  }
  if (was_denied) {  // the claim has ended; perhaps after it had let this device in
    const Exchange own(wanted, run);
    if (own.status() == Status::kOk) {
      return Attempt::kGranted;
    }
    *why = "the claim has ended, and `gradstream claim add` makes another one";
  }
  return Attempt::kRefused;
}

int settle(const ClaimRun& run, const std::string& pending) {
  if (const int cause = rename_durably(pending.c_str(), run.identity_path.c_str()); cause != 0) {
    const FileFault problem = path_problem(cause, run.identity_path, "write", "name a folder that can be written");
    return fail(problem.code, problem.text);
  }
  port_log_line(("event=claimed device=" + run.name + " identity=" + run.identity_path).c_str());
  return kExitOk;
}

}  // namespace

int claim_identity(const ClaimRun& run) {
  if (fs::exists(run.identity_path)) {
    return kExitOk;
  }
  Identity claim;
  Identity wanted;
  FileFault problem = read_identity(run.claim_path, &claim);
  if (problem.text.empty() && !is_claim_identity(claim.name)) {
    problem.text = run.claim_path + " is no claim: give the file that `gradstream claim add` wrote";
  }
  const std::string pending = run.identity_path + ".claimed";
  if (problem.text.empty()) {
    problem = prepare_identity(pending, run.name, &wanted);
  }
  if (!problem.text.empty()) {
    return fail(problem.code, problem.text);
  }
  if (tls_start(nullptr, 0) != Status::kOk) {
    return fail(kExitNoEntropy, "no random numbers for TLS");
  }
  for (uint32_t failures = 0;; failures = std::min(failures + 1, kBackOffDoublingMax)) {
    std::string why;
    switch (attempt(run, claim, wanted, &why)) {
      case Attempt::kGranted:
        return settle(run, pending);
      case Attempt::kRefused:
        return fail(kExitIdentity, "the claim of the name " + run.name + " was refused: " + why +
                                       "; see claim_refused or tls_claim_ended in the server's log");
      case Attempt::kLater:
        break;
    }
    if (end_signal() != 0) {
      return kExitOk;
    }
    port_log_line(("event=claim_failed reason=\"" + why + "\"").c_str());
    if (run.once) {
      return kExitSession;
    }
    uint8_t jitter = 0;  // a batch is switched on at one moment
    (void)port_random_bytes(&jitter, sizeof jitter);
    const uint64_t wait_ms = uint64_t{run.retry_ms} + (uint64_t{run.retry_ms} << failures) * jitter / 255;
    const uint64_t until_ms = port_now_ms() + wait_ms;
    for (uint64_t now_ms = port_now_ms(); now_ms < until_ms; now_ms = port_now_ms()) {
      if (end_signal() != 0) {
        return kExitOk;
      }
      tell_alive(run);
      port_sleep_until_ms(std::min(until_ms, now_ms + kFeedPeriodMs));
    }
  }
}

}  // namespace gradstream
