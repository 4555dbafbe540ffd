#include "firmware/claim_posix.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <system_error>

#include <mbedtls/platform_util.h>

#include "firmware/client_main.h"
#include "firmware/identity_posix.h"
#include "firmware/name_posix.h"
#include "host/end_signals.h"
#include "host/file_cause.h"
#include "runtime/base/config.h"
#include "runtime/link/key_agreement.h"
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
int fail(int code, const std::string& reason) {
  port_log_line(failed_line(reason).c_str());
  return code;
}

// A file that cannot be looked at counts as there: whoever reads it then says why, and no secret is drawn over it.
bool is_there(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error) || error;
}

// What was drawn for a device that is to be: its key, or where the claim names its server, the secret of which the key
// comes. As an earlier attempt has stored it, or new.
FileFault prepare_secret(const std::string& path, const std::string& name, const ServerKey& server, Identity* out) {
  if (is_there(path)) {
    ServerKey earlier;
    FileFault problem = read_identity(path, out, &earlier);
    if (problem.text.empty() && name != out->name) {
      return {path + " is of an attempt under the name " + out->name + ": go on with that one, or remove the file"};
    }
    if (problem.text.empty() && earlier.is_there != server.is_there) {
      return {path +
              (server.is_there ? " is of an attempt by a claim that names no server, which may have read its key"
                               : " is of an attempt by a claim that names its server") +
              ": go on with that claim, or remove the file"};
    }
    return problem;
  }
  std::strncpy(out->name, name.c_str(), Identity::kNameSizeMax);
  if (port_random_bytes(out->key, sizeof out->key) != Status::kOk) {
    return {"no random bytes for a key", kExitNoEntropy};
  }
  return store_identity(path, *out, kPendingNote, server);
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
      : run_(run), transport_(port_transport()), deadline_ms_(deadline_in(kHandshakeDeadlineMs)) {
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

  Status claim(const ClaimRequest& request, ClaimVerdict* verdict) {
    uint8_t frame[kFrameSizeMax];
    const Result<size_t> size = encode_claim_request(request, frame);
    GS_TRY(size.status());
    deadline_ms_ = deadline_in(kAnswerDeadlineMs);
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
    return decode_claim_answer(reader.payload(), verdict);
  }

 private:
  uint64_t deadline_in(uint64_t limit_ms) const { return std::min(port_now_ms() + limit_ms, run_.end_ms); }

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

// What a device asks for, and what it has when that is granted.
struct Enrolment {
  ClaimRequest request;  // holds a key where it is not proven
  SecretIdentity identity;
  KeyProof proof;  // request.is_proven
  Enrolment() = default;
  ~Enrolment() { mbedtls_platform_zeroize(&request, sizeof request); }
  Enrolment(const Enrolment&) = delete;
  Enrolment& operator=(const Enrolment&) = delete;
};

// drawn: of prepare_secret(). Codes of prove_as_device().
Status make_enrolment(const Identity& claim, const ServerKey& server, const Identity& drawn, Enrolment* out) {
  static_cast<Identity&>(out->identity) = drawn;
  out->request.device = drawn;
  out->request.is_proven = server.is_there;
  if (!server.is_there) {
    return Status::kOk;
  }
  GS_TRY(prove_as_device({claim.name, drawn.name, claim.key}, drawn.key, server.bytes, &out->proof));
  std::memcpy(out->request.device.key, out->proof.device_public, sizeof out->request.device.key);
  std::memcpy(out->request.confirm, out->proof.confirm_device, sizeof out->request.confirm);
  std::memcpy(out->identity.key, out->proof.device_key, sizeof out->identity.key);
  return Status::kOk;
}

// Whether the claim can be used at all, before anything is drawn and stored for it. Any secret tells: that of the trial
// is 1 everywhere. kUnauthenticated: nobody has drawn the claim's key, or the server's; kOutOfMemory.
Status try_claim(const Identity& claim, const ServerKey& server, const std::string& name) {
  if (is_undrawn_key(claim.key)) {
    return Status::kUnauthenticated;
  }
  Identity trial;
  std::strncpy(trial.name, name.c_str(), Identity::kNameSizeMax);
  std::memset(trial.key, 1, sizeof trial.key);
  Enrolment unused;
  return make_enrolment(claim, server, trial, &unused);
}

enum class Attempt : uint8_t { kGranted, kRefused, kNotProven, kLater };

// Reasons of event=claim_refused. A server's own have the names of the wire and of its log.
constexpr char kClaimEnded[] = "claim_ended", kClaimUnknown[] = "claim_unknown", kNotNamed[] = "server_not_named";

// What helps against a refusal for that reason.
const char* remedy_of(const std::string& reason) {
  constexpr struct {
    const char *reason, *remedy;
  } kRemedies[] = {
      {"claim_used",
       "another device has this name, or this one has lost its identity file: give it another --name, or ask the "
       "operator for a file of its own: gradstream device rotate NAME --out FILE"},
      {kClaimEnded,
       "the claim's time is over, it was ended, or it has let in as many devices as it may: ask the operator for a new "
       "claim file: gradstream claim add NAME --out FILE"},
      {kClaimUnknown,
       "this server has no such claim, or one of that name with another key: check --server, and ask its operator for "
       "a new claim file: gradstream claim add NAME --out FILE"},
      {kNotNamed,
       "the server proves itself for this claim, and the file does not let it, as it has no line server = : ask the "
       "operator for the whole file, or for a new claim file: gradstream claim add NAME --out FILE"},
  };
  for (const auto& row : kRemedies) {
    if (reason == row.reason) {
      return row.remedy;
    }
  }
  return "see claim_refused in the server's log";
}

// The reason of a server that has read the request. One without a proof is of the wrong state for one cause alone: the
// claim proves its server (docs/wire.md, Claims).
const char* refusal_name(const ClaimRequest& request, gs_Reason reason) {
  return reason == gs_Reason_REASON_UNEXPECTED_MESSAGE && !request.is_proven ? kNotNamed : reason_name(reason);
}

// Whoever says so costs the device a repetition, and no more: it needs no proof.
bool is_for_later(gs_Reason reason) {
  return reason == gs_Reason_REASON_STORAGE || reason == gs_Reason_REASON_OVERLOADED ||
         reason == gs_Reason_REASON_DEADLINE;
}

Attempt judge(const Enrolment& wanted, const ClaimVerdict& verdict) {
  if (is_for_later(verdict.reason)) {
    return Attempt::kLater;
  }
  const bool is_granted = verdict.reason == gs_Reason_REASON_NONE;
  const auto& confirm = is_granted ? wanted.proof.confirm_server : wanted.proof.confirm_refused;
  if (wanted.request.is_proven && !(verdict.is_confirmed && is_same_confirm(verdict.confirm, confirm))) {
    return Attempt::kNotProven;
  }
  return is_granted ? Attempt::kGranted : Attempt::kRefused;
}

// *why: the reason of a refusal, or what failed.
Attempt attempt(const ClaimRun& run, const Identity& claim, const Enrolment& wanted, std::string* why) {
  bool was_denied = false;
  {
    Exchange exchange(claim, run);
    ClaimVerdict verdict;
    if (exchange.status() == Status::kOk) {
      const Status status = exchange.claim(wanted.request, &verdict);
      *why = status == Status::kOk ? refusal_name(wanted.request, verdict.reason) : status_text(status);
      was_denied = exchange.was_denied();  // a server that hides identities says it after the handshake
      if (!was_denied) {
        return status == Status::kOk ? judge(wanted, verdict) : Attempt::kLater;
      }
    } else {
      *why = *exchange.text() != '\0' ? exchange.text() : status_text(exchange.status());
      was_denied = exchange.was_denied();
      if (exchange.status() != Status::kUnauthenticated) {
        return Attempt::kLater;
      }
      *why = kClaimUnknown;
    }
  }
  if (was_denied) {  // the claim has ended; perhaps after it had let this device in
    const Exchange own(wanted.identity, run);
    if (own.status() == Status::kOk) {
      return Attempt::kGranted;
    }
    if (own.status() != Status::kUnauthenticated && !own.was_denied()) {
      *why = status_text(own.status());
      return Attempt::kLater;  // nobody said no: the device may be in
    }
    *why = kClaimEnded;
  }
  return Attempt::kRefused;
}

int settle(const ClaimRun& run, const Enrolment& wanted, const std::string& pending) {
  if (const FileFault problem = store_identity(run.identity_path, wanted.identity); !problem.text.empty()) {
    return fail(problem.code, problem.text);
  }
  erase_file(pending);
  port_log_line(("event=claimed device=" + run.name + " identity=" + run.identity_path).c_str());
  return kExitOk;
}

// Logs event=claim_refused. Returns code.
int refuse(int code, const char* reason, const std::string& remedy) {
  port_log_line(("event=claim_refused reason=" + std::string(reason) + " remedy=\"" + remedy + "\"").c_str());
  return code;
}

// Until it is decided, or the process is to end.
int pursue(const ClaimRun& run, const Identity& claim, const Enrolment& wanted, const std::string& pending) {
  for (uint32_t failures = 0;; failures = std::min(failures + 1, kBackOffDoublingMax)) {
    std::string why;
    switch (attempt(run, claim, wanted, &why)) {
      case Attempt::kGranted:
        return settle(run, wanted, pending);
      case Attempt::kRefused:
        return refuse(kExitIdentity, why.c_str(), remedy_of(why));
      case Attempt::kNotProven:
        erase_file(pending);
        return refuse(kExitServerNotProven, "server_not_proven",
                      "what answered is not the server that made this claim, and was told no key: check --server, and "
                      "that the claim's file is of that server; see claim_refused in its log");
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

}  // namespace

int claim_identity(const ClaimRun& run) {
  const std::string pending = run.identity_path + ".claimed";
  std::error_code error;
  if (fs::exists(run.identity_path, error)) {
    erase_file(pending);  // a process that ended before it did
    return kExitOk;
  }
  if (error) {
    return fail(is_temporary_at(error.value(), run.identity_path.c_str()) ? kExitTemporary : kExitIdentity,
                "cannot look for " + run.identity_path + ": " + cause_text(error.value()) + "; " +
                    remedy_text(error.value(), "name a file in a folder that this user may enter"));
  }
  SecretIdentity claim;
  ServerKey server;
  FileFault problem = read_identity(run.claim_path, &claim, &server);
  if (problem.text.empty() && !is_claim_identity(claim.name)) {
    problem.text = run.claim_path + " is no claim: give the file that `gradstream claim add` wrote";
  }
  if (!problem.text.empty()) {
    return fail(problem.code, problem.text);
  }
  if (run.key_exchange == TlsKeyExchange::kPsk) {
    return refuse(kExitIdentity, "psk_ke",
                  "all who hold the claim could read the session: leave out --key-exchange until --identity is there");
  }
  if (!server.is_there && !run.takes_unproven) {
    return refuse(kExitIdentity, kNotNamed,
                  "the claim's file has no line server = : make a claim with gradstream claim add of this release, or "
                  "take the risk that a holder of the file reads the key, with --claim-unproven");
  }
  if (tls_start(nullptr, 0) != Status::kOk) {
    return fail(kExitNoEntropy, "no random numbers for TLS");
  }
  const Status usable = try_claim(claim, server, run.name);
  if (usable == Status::kUnauthenticated) {
    return fail(kExitIdentity, run.claim_path +
                                   " holds a key that nobody has drawn: give the file that `gradstream claim add` "
                                   "wrote");
  }
  SecretIdentity drawn;
  Enrolment wanted;
  if (usable == Status::kOk) {
    problem = prepare_secret(pending, run.name, server, &drawn);
  }
  if (!problem.text.empty()) {
    return fail(problem.code, problem.text);
  }
  if (usable != Status::kOk || make_enrolment(claim, server, drawn, &wanted) != Status::kOk) {
    return fail(kExitMemory, "no memory for the keys of a claim");
  }
  return pursue(run, claim, wanted, pending);
}

}  // namespace gradstream
