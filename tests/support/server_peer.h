// Peers of the server over real sockets on 127.0.0.1, good and bad, driven from the server's own thread: a test turns
// the io_context and the peer by turns until a condition holds, so that nothing ever sleeps to wait.
#ifndef GRADSTREAM_TESTS_SUPPORT_SERVER_PEER_H_
#define GRADSTREAM_TESTS_SUPPORT_SERVER_PEER_H_

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/link/tls.h"
#include "runtime/wire/codec.h"
#include "runtime/wire/frame.h"
#include "runtime/wire/identity.h"
#include "runtime/wire/key_change.h"
#include "server/base/descriptors.h"
#include "server/base/log.h"
#include "server/program/server.h"

namespace gradstream {

// Every log line while it lives: "event key=value ...".
class LogCapture {
 public:
  LogCapture() {
    set_log_sink([this](LogLevel, std::string_view event, std::string_view fields) {
      const std::lock_guard<std::mutex> lock(mutex_);
      lines_.push_back(std::string(event) + " " + std::string(fields));
    });
  }
  ~LogCapture() { set_log_sink({}); }
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;
  // The first line with this event, or "".
  std::string find(const std::string& event) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const std::string& line : lines_) {
      if (line.compare(0, event.size() + 1, event + " ") == 0) {
        return line;
      }
    }
    return "";
  }
  size_t count(const std::string& event) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    size_t count = 0;
    for (const std::string& line : lines_) {
      count += line.compare(0, event.size() + 1, event + " ") == 0 ? 1 : 0;
    }
    return count;
  }

 private:
  mutable std::mutex mutex_;  // the store thread logs too
  std::vector<std::string> lines_;
};

// For what must come. Reason: a busy machine under a sanitizer may take seconds for milliseconds' work, and a test that
// fails has less than ctest's limit (GS_TEST_TIMEOUT) to say so.
inline constexpr int kUntilMs = 60000;

// Turns the server until the condition holds; false after limit_ms.
inline bool run_until(asio::io_context& io, const std::function<bool()>& condition, int limit_ms = kUntilMs) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::milliseconds(limit_ms);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > limit) {
      return false;
    }
    if (io.stopped()) {
      io.restart();  // it ran out of work since the last look
    }
    if (io.poll() == 0) {
      io.run_one_for(std::chrono::milliseconds(1));
    }
  }
  return true;
}

inline Identity identity_of(const std::string& name, uint8_t key_byte) {
  Identity identity;
  std::strncpy(identity.name, name.c_str(), Identity::kNameSizeMax);
  std::memset(identity.key, key_byte, sizeof identity.key);
  return identity;
}

// A non-blocking socket that sends and reads whatever the test wants.
class RawPeer {
 public:
  // source: last byte of the address 127.0.0.x that it comes from.
  explicit RawPeer(uint16_t port, int receive_buffer_size = 0, uint8_t source = 1)
      : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    if (receive_buffer_size > 0) {
      setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer_size, sizeof receive_buffer_size);
    }
    const int one = 1;
    setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + source);
    (void)::bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address);
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    fcntl(socket_, F_SETFL, O_NONBLOCK);
  }
  ~RawPeer() { close(); }
  RawPeer(const RawPeer&) = delete;
  RawPeer& operator=(const RawPeer&) = delete;

  bool connected() const { return connected_; }
  void send(std::span<const uint8_t> bytes) { (void)::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  void send(const std::string& text) {
    send(std::span<const uint8_t>(reinterpret_cast<const uint8_t*>(text.data()), text.size()));
  }
  // Reads what is there; true once the server has closed.
  bool closed_by_server() {
    uint8_t buffer[4096];
    for (;;) {
      const ssize_t size = ::recv(socket_, buffer, sizeof buffer, 0);
      if (size > 0) {
        received_.insert(received_.end(), buffer, buffer + size);
        continue;
      }
      return size == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
    }
  }
  const std::vector<uint8_t>& received() const { return received_; }
  void close() {
    if (socket_ >= 0) {
      ::close(socket_);
      socket_ = -1;
    }
  }
  int socket() const { return socket_; }

 private:
  int socket_;
  bool connected_ = false;
  std::vector<uint8_t> received_;
};

// A device's end of a session: TLS and frames, no state machine.
class TlsPeer {
 public:
  TlsPeer(uint16_t port, Identity identity, TlsKeyExchange exchange = TlsKeyExchange::kPskEphemeral,
          int receive_buffer_size = 0)
      : raw_(port, receive_buffer_size), identity_(identity) {
    (void)tls_start(nullptr, 0);
    (void)session_.begin(Transport{&kOps, this}, identity_, exchange);
  }

  // By certificate; the credentials outlive the peer.
  TlsPeer(uint16_t port, const Credentials& credentials, const char* server_name) : raw_(port), identity_{} {
    (void)session_.begin(Transport{&kOps, this}, credentials, server_name);
  }

  // One turn; the handshake's status so far.
  Status turn() {
    if (status_ == Status::kWouldBlock) {
      status_ = session_.handshake();
    }
    if (status_ == Status::kOk) {
      (void)session_.flush();
      receive();
    }
    return status_;
  }
  bool established() { return turn() == Status::kOk; }
  // Plain bytes; they leave within this call unless the socket is full.
  bool send_bytes(std::span<const uint8_t> bytes) {
    const Result<size_t> size = session_.write(bytes.data(), bytes.size());
    (void)session_.flush();
    return size.ok() && size.value() == bytes.size();
  }
  bool send(const DeviceMessage& message) {
    uint8_t frame[kFrameSizeMax];
    const Result<size_t> size = encode_frame(message, frame);
    return size.ok() && send_bytes({frame, size.value()});
  }
  bool gone() {
    (void)turn();
    return ended_ || (status_ != Status::kOk && status_ != Status::kWouldBlock);
  }
  // The next message of the server, if one is there.
  std::optional<ServerMessage> next() {
    (void)turn();
    if (messages_.empty()) {
      return std::nullopt;
    }
    ServerMessage message = messages_.front();
    messages_.erase(messages_.begin());
    return message;
  }
  bool send(const KeyChange& change) {
    uint8_t frame[kFrameSizeMax];
    const Result<size_t> size = encode_key_change_of_device(change, frame);
    return size.ok() && send_bytes({frame, size.value()});
  }
  // What the server has said of keys, so far.
  const std::vector<KeyChange>& key_changes() {
    (void)turn();
    return key_changes_;
  }
  // The reason of the Refuse that came last, if any.
  gs_Reason refusal() {
    (void)turn();
    return refusal_;
  }
  TlsSession& session() { return session_; }
  RawPeer& raw() { return raw_; }
  void set_reading(bool reading) { reading_ = reading; }

 private:
  static Result<size_t> transport_read(void* context, uint8_t* out, size_t size) {
    const ssize_t count = ::recv(static_cast<TlsPeer*>(context)->raw_.socket(), out, size, 0);
    if (count > 0) {
      return static_cast<size_t>(count);
    }
    return count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? Status::kWouldBlock : Status::kClosed;
  }
  static Result<size_t> transport_write(void* context, const uint8_t* bytes, size_t size) {
    const ssize_t count = ::send(static_cast<TlsPeer*>(context)->raw_.socket(), bytes, size, MSG_NOSIGNAL);
    if (count > 0) {
      return static_cast<size_t>(count);
    }
    return count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? Status::kWouldBlock : Status::kClosed;
  }
  static constexpr TransportOps kOps = {[](void*) { return Status::kOk; }, transport_read, transport_write,
                                        [](void*) {}, true};

  void receive() {
    uint8_t buffer[1024];
    while (reading_ && !ended_) {
      const Result<size_t> size = session_.read(buffer, sizeof buffer);
      if (!size.ok()) {
        ended_ = size.status() != Status::kWouldBlock;
        return;
      }
      std::span<const uint8_t> rest(buffer, size.value());
      while (!rest.empty()) {
        rest = rest.subspan(reader_.feed(rest));
        if (reader_.has_frame()) {
          ServerMessage message = {};
          KeyChange change;
          if (decode_key_change_of_server(reader_.payload(), &change) == Status::kOk) {
            key_changes_.push_back(change);
          } else if (decode_message(reader_.payload(), &message) == Status::kOk) {
            refusal_ = message.which_body == gs_ServerMessage_refuse_tag ? message.body.refuse.reason : refusal_;
            messages_.push_back(message);
          }
          reader_.pop();
        }
      }
    }
  }

  RawPeer raw_;
  Identity identity_;
  TlsSession session_;
  FrameReader reader_;
  Status status_ = Status::kWouldBlock;
  bool ended_ = false;
  bool reading_ = true;
  gs_Reason refusal_ = gs_Reason_REASON_NONE;
  std::vector<ServerMessage> messages_;
  std::vector<KeyChange> key_changes_;
};

inline DeviceMessage hello_message() {
  DeviceMessage message = {};
  message.which_body = gs_DeviceMessage_hello_tag;
  message.body.hello.protocol_version = kProtocolVersion;
  return message;
}

// A listener whose owner only notes what happens. "device-1" .. "device-9" are enrolled with key bytes 1 .. 9, and
// there is a claim "~batch" with key bytes 10.
class ListenerHarness : public SessionOwner {
 public:
  // thread_count: of the sessions' own threads; 0: they live on the harness's.
  // board: loaded, and certificates are taken too.
  explicit ListenerHarness(const ListenerLimits& limits = {}, bool allow_psk_ke = false, size_t thread_count = 0,
                           const CredentialBoard* board = nullptr, bool hide_identities = false)
      : tls(find, {allow_psk_ke, hide_identities}, board), listener(io, tls, limits, counters, *this, find) {
    (void)tls.start();
    (void)listener.start_threads(std::vector<PskLookup>(thread_count, find), {allow_psk_ke, hide_identities}, board);
    problem = listener.open(Tcp::endpoint(asio::ip::address_v4::loopback(), 0)).sentence;
  }
  static bool find(std::string_view identity, PskEntry* out) {
    if (identity == "~batch") {
      out->device = kNoDevice;
      out->claim = 1;
      out->key.fill(10);
      return true;
    }
    if (identity.size() != 8 || identity.substr(0, 7) != "device-" || identity[7] < '1' || identity[7] > '9') {
      return false;
    }
    out->device = static_cast<uint32_t>(identity[7] - '1');
    out->key.fill(static_cast<uint8_t>(out->device + 1));
    out->refusal = identity[7] == '9' ? PskRefusal::kRevoked : PskRefusal::kNone;
    return true;
  }
  static Identity device(int number) {
    return identity_of("device-" + std::to_string(number), static_cast<uint8_t>(number));
  }

  // Of all threads.
  ShellCounters counted() const {
    ShellCounters total = counters;
    listener.add_thread_counters(&total);
    return total;
  }
  // Connections that have sent a ClientHello and wait for a place.
  size_t waits() const { return listener.waiting_count(); }
  void on_session_established(SessionId session, uint32_t, uint32_t) override { established.push_back(session); }
  void on_session_unregistered(SessionId session, const std::string&) override {
    listener.admit(session, registration, registration == TlsFault::kNone ? 5 : kNoDevice);
  }
  void on_session_message(SessionId session, uint32_t device_index, const DeviceMessage& message) override {
    messages.emplace_back(device_index, message);
    if (answer) {
      answer(session);
    }
  }
  void on_session_claim(SessionId session, uint32_t, const ClaimRequest&) override {
    listener.answer_claim(session, {gs_Reason_REASON_CLAIM_ENDED});
  }
  void on_session_key_change(SessionId session, uint32_t, const KeyChange& change) override {
    key_changes.push_back(change);
    KeyChange refusal;
    refusal.generation = change.generation;
    listener.send_key_change(session, refusal);
    listener.flush();
  }
  void on_session_ended(SessionId session) override { ended.push_back(session); }
  bool until(const std::function<bool()>& condition, int limit_ms = kUntilMs) {
    return run_until(io, condition, limit_ms);
  }

  asio::io_context io;
  LogCapture log;
  ShellCounters counters;
  TlsContext tls;
  std::string problem;
  std::vector<SessionId> established;
  std::vector<SessionId> ended;
  std::vector<std::pair<uint32_t, DeviceMessage>> messages;
  std::vector<KeyChange> key_changes;
  std::function<void(SessionId)> answer;
  TlsFault registration = TlsFault::kUnknownIdentity;  // the answer to who is unregistered; kNone: it is device 5
  Listener listener;                                   // last: its end reports to all of the above
};

}  // namespace gradstream

#endif  // GRADSTREAM_TESTS_SUPPORT_SERVER_PEER_H_
