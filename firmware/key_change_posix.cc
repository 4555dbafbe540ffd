#include "firmware/key_change_posix.h"

#include <charconv>
#include <cstring>
#include <filesystem>
#include <string_view>

#include <mbedtls/platform_util.h>
#include <unistd.h>

#include "firmware/fail_posix.h"
#include "firmware/name_posix.h"
#include "runtime/link/port.h"
#include "runtime/link/tls.h"

namespace gradstream {
namespace {

namespace fs = std::filesystem;

std::string identity_text(const IdentityName& name) { return name.name + "~" + std::to_string(name.generation); }

void log_line(const std::string& line) { port_log_line(line.c_str()); }

// remedy: with a full stop nowhere, as all remedies.
void warn(const char* event, uint32_t generation, const std::string& reason, const std::string& remedy) {
  log_line(std::string("event=") + event + " generation=" + std::to_string(generation) + " reason=\"" + reason +
           "\" remedy=\"" + remedy + "\"");
}

void put_name(const std::string& name, Identity* out) {
  std::memset(out->name, 0, sizeof out->name);
  std::memcpy(out->name, name.data(), name.size());
}

}  // namespace

IdentityName split_identity_name(const std::string& identity) {
  const size_t tilde = identity.rfind('~');
  IdentityName split = {identity, 0};
  if (tilde == std::string::npos || tilde == 0 || tilde + 1 == identity.size() || identity[tilde + 1] == '0') {
    return split;
  }
  const char* const end = identity.data() + identity.size();
  const auto parsed = std::from_chars(identity.data() + tilde + 1, end, split.generation);
  if (parsed.ec != std::errc() || parsed.ptr != end) {
    return {identity, 0};
  }
  split.name.resize(tilde);
  return split;
}

bool can_keep_identity(const std::string& path) {
  std::error_code error;
  const fs::path file = fs::canonical(path, error);
  return !error && fs::is_regular_file(file, error) && ::access(file.parent_path().c_str(), W_OK | X_OK) == 0;
}

int keep_identity(const std::string& path, IdentityKeeper* keeper, ClientMainOptions* options) {
  if (path.empty() || !can_keep_identity(path)) {
    return kExitOk;
  }
  if (tls_start(nullptr, 0) != Status::kOk) {
    return fail(kExitNoEntropy, "no random numbers for TLS");
  }
  const FileFault fault = keeper->open(path);
  options->keys = keeper;
  return fault.text.empty() ? int{kExitOk} : fail(fault.code, fault.text);
}

FileFault IdentityKeeper::open(const std::string& path) {
  std::error_code error;
  path_ = fs::canonical(path, error).string();
  ServerKey none;
  FileFault fault = read_identity(path_, &own_, &none);
  if (!fault.text.empty()) {
    return fault;
  }
  name_ = split_identity_name(own_.name);
  if (!fs::exists(next_path(), error)) {
    return {};
  }
  SecretIdentity drawn;
  ServerKey server;
  fault = read_identity(next_path(), &drawn, &server);
  if (!fault.text.empty()) {
    return fault;
  }
  if (!server.is_there || drawn.name != identity_text({name_.name, name_.generation + 1})) {
    erase_file(next_path());  // the change is done, or the key was changed otherwise meanwhile
    return {};
  }
  const Status status = adopt(drawn, server);
  return status == Status::kOk
             ? FileFault()
             : FileFault{
                   next_path() + " holds no key that can be agreed on; remove it, and the device goes on by " + path_,
                   status == Status::kClosed ? kExitMemory : kExitIdentity};
}

// What was drawn, with what comes of it. Codes of prove_as_device(); then nothing has changed.
Status IdentityKeeper::adopt(const Identity& drawn, const ServerKey& server) {
  GS_TRY(prove_as_device(KeyChangeTerms{name_.name, name_.generation + 1, own_.key}, drawn.key, server.bytes, &proof_));
  static_cast<Identity&>(next_) = drawn;
  std::memcpy(next_.key, proof_.device_key, sizeof next_.key);
  server_ = server;
  has_next_ = true;
  return Status::kOk;
}

void IdentityKeeper::on_connecting() {
  is_by_next_ = has_next_;
  is_greeted_ = false;
  is_offer_due_ = false;
}

bool IdentityKeeper::on_refused() {
  const bool is_next = is_by_next_;
  is_by_next_ = false;
  return is_next;
}

void IdentityKeeper::on_connected() {
  if (is_by_next_) {
    settle();  // the server has shown by the handshake that it has the new key
  } else {
    is_offer_due_ = has_next_;
  }
}

bool IdentityKeeper::take(std::span<const uint8_t> payload) {
  KeyChange change;
  is_greeted_ = true;
  if (decode_key_change_of_server(payload, &change) != Status::kOk) {
    return false;
  }
  if (change.has_public) {
    answer_ask(change);
    return true;
  }
  if (!has_next_ || change.generation != name_.generation + 1) {
    return true;  // of a change that is over
  }
  if (!change.has_confirm) {
    drop_next();
    warn("key_change_refused", change.generation, "the server takes no such key now",
         "none needed: the device keeps its key; see key_change_refused in the server's log");
  } else if (is_same_confirm(change.confirm, proof_.confirm_server)) {
    settle();
  } else {
    warn("key_change_failed", change.generation, "what answered does not have the new key", "check --server");
  }
  return true;
}

void IdentityKeeper::answer_ask(const KeyChange& ask) {
  if (ask.generation != name_.generation + 1) {
    warn("key_change_failed", ask.generation, "the server asks for another generation than the next one",
         "give the device the identity file that was written last, by gradstream device rotate");
    return;
  }
  if (has_next_ && std::memcmp(ask.public_key, server_.bytes, sizeof server_.bytes) == 0) {
    return;  // it is offered in this session, or was
  }
  draw(ask);
}

// A new secret, for this request. One that was offered to an earlier request goes: the server has forgotten that.
void IdentityKeeper::draw(const KeyChange& ask) {
  const std::string name = identity_text({name_.name, ask.generation});
  SecretIdentity drawn;
  ServerKey server;
  server.is_there = true;
  std::memcpy(server.bytes, ask.public_key, sizeof server.bytes);
  if (name.size() > Identity::kNameSizeMax || port_random_bytes(drawn.key, sizeof drawn.key) != Status::kOk) {
    warn("key_change_failed", ask.generation, "no random bytes for a key, or the name is too long for a generation",
         "gradstream device rotate --out makes a file for this device");
    return;
  }
  put_name(name, &drawn);
  KeyProof trial;  // a request that cannot be answered leaves no file
  const Status status =
      prove_as_device(KeyChangeTerms{name_.name, ask.generation, own_.key}, drawn.key, server.bytes, &trial);
  FileFault fault = {status == Status::kOk ? "" : "the server's key is none, or there is no memory", kExitIdentity};
  if (fault.text.empty()) {
    fault = store_identity(next_path(), drawn, kNextKeyNote, server);
  }
  if (!fault.text.empty()) {
    warn("key_change_failed", ask.generation, fault.text, "the device keeps its key; the server asks again");
    return;
  }
  is_offer_due_ = adopt(drawn, server) == Status::kOk;
}

std::span<const uint8_t> IdentityKeeper::frame_due() {
  if (!is_offer_due_ || !is_greeted_) {
    return {};
  }
  is_offer_due_ = false;
  KeyChange offer;
  offer.generation = name_.generation + 1;
  offer.has_public = true;
  offer.has_confirm = true;
  std::memcpy(offer.public_key, proof_.device_public, sizeof offer.public_key);
  std::memcpy(offer.confirm, proof_.confirm_device, sizeof offer.confirm);
  const Result<size_t> size = encode_key_change_of_device(offer, frame_);
  return size.ok() ? std::span<const uint8_t>(frame_, size.value()) : std::span<const uint8_t>();
}

// The new key is the device's. Where that cannot be stored IDENTITY.next stays, which leads to the same key.
void IdentityKeeper::settle() {
  const uint32_t generation = name_.generation + 1;
  if (const FileFault fault = store_identity(path_, next_); !fault.text.empty()) {
    warn("key_change_failed", generation, fault.text, "the device tries again at its next connection");
    return;
  }
  static_cast<Identity&>(own_) = next_;
  name_.generation = generation;
  drop_next();
  log_line(std::string("event=key_changed identity=") + own_.name + " generation=" + std::to_string(generation) +
           " file=" + path_);
}

void IdentityKeeper::drop_next() {
  erase_file(next_path());
  mbedtls_platform_zeroize(next_.key, sizeof next_.key);
  mbedtls_platform_zeroize(&proof_, sizeof proof_);
  has_next_ = false;
  is_offer_due_ = false;
}

}  // namespace gradstream
