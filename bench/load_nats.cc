#include "bench/load_nats.h"

#include <charconv>

namespace gradstream {
namespace {

constexpr size_t kPayloadSize = 980;        // with its line one record, as an update is
constexpr size_t kReceivedSizeMax = 65536;  // bytes; an INFO line and an answer take a few hundred
constexpr const char* kLineEnd = "\r\n";
constexpr size_t kLineEndSize = 2;

}  // namespace

void NatsPeer::send_text(const std::string& text) {
  send_bytes({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

void NatsPeer::forget_session() {
  received_.clear();
  has_body_ = false;
}

void NatsPeer::greet() {
  send_text("CONNECT {\"verbose\":false,\"tls_required\":true,\"name\":\"" + name_ + "\"}" + kLineEnd + "SUB r." +
            name_ + " 1" + kLineEnd + "PING" + kLineEnd);
}

void NatsPeer::ask() {
  start_clock();
  send_text("PUB u." + name_ + " r." + name_ + " " + std::to_string(kPayloadSize) + kLineEnd +
            std::string(kPayloadSize, 'Z') + kLineEnd);
}

void NatsPeer::on_bytes(std::span<const uint8_t> bytes) {
  received_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  while (state() != LoadPeerState::kGone) {
    const size_t size = has_body_ ? body_size_ : received_.find(kLineEnd);
    if (size == std::string::npos || received_.size() < size + kLineEndSize) {
      return received_.size() > kReceivedSizeMax ? fail("a line or an answer that does not end") : void();
    }
    const std::string text = received_.substr(0, size);
    received_.erase(0, size + kLineEndSize);
    if (!has_body_) {
      on_line(text);
      continue;
    }
    has_body_ = false;
    // {"stream":"...","seq":N}, or {"error":{...}}
    text.find("\"error\"") == std::string::npos ? end_exchange(true) : fail("the stream refuses");
  }
}

void NatsPeer::on_line(const std::string& line) {
  if (line.starts_with("MSG ")) {  // MSG SUBJECT NUMBER [REPLY] SIZE
    const char* const end = line.data() + line.size();
    const char* const begin = line.data() + line.rfind(' ') + 1;
    has_body_ = std::from_chars(begin, end, body_size_).ptr == end;
    return has_body_ ? void() : fail("an answer without its size");
  }
  if (line == "PONG") {
    return leave_early() ? void() : greeted();
  }
  if (line == "PING") {
    return send_text(std::string("PONG") + kLineEnd);
  }
  if (!line.starts_with("INFO ") && line != "+OK") {
    fail("the server refuses");
  }
}

}  // namespace gradstream
