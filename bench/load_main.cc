// gradstream-load: thousands of devices in one thread, for ./run bench server and ./run soak fleet. Each has a TLS
// session of its own and the device's own code for it. What it answers to a task follows from its index and the task's
// version alone: what is measured is the server.
//
//   gradstream-load --port N --identities FILE --devices N [--mqtt] [--exchange certificate --certificates FOLDER]
//
// It connects all devices, says `event=connected ...`, and then does what the lines of its input say, one after the
// other; each ends with a line `event=load ...`, the third with `event=returned ...`:
//   closed SECONDS COUNT   COUNT devices are always in an exchange, whose turn it is in order
//   open SECONDS RATE      RATE exchanges a second begin, at random times (Poisson)
//   return SECONDS         says `event=waiting`, and waits at most so long until every device has lost its session once
//                          and is back, dialling as runtime/link/client.cc does
//   days SECONDS SHARE     every device pulls and answers as the server's windows say; after an Ack it leaves with
//                          probability SHARE, to dial again when its window is over. At the end all leave.
//   quit
// An exchange is Pull, Task, update, Ack; its latency is that from the update to the Ack. With --mqtt the peer is an
// MQTT 3.1.1 broker and an exchange a PUBLISH of the same size with QoS 1 and its PUBACK.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <iostream>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/base/crc32c.h"
#include "runtime/link/certificate.h"
#include "runtime/link/tls.h"
#include "runtime/wire/codec.h"
#include "runtime/wire/frame.h"
#include "runtime/wire/identity.h"

namespace gradstream {

void assert_failed(const char* file, int line) {
  std::fprintf(stderr, "load: error: contract broken at %s:%d\n", file, line);
  std::abort();
}

namespace {

// Handshakes in progress. Reason: below the server's own cap, and enough to keep it busy.
constexpr uint32_t kConnectingMax = 48;
constexpr double kConnectSecondsMax = 600;
// An exchange takes milliseconds; what takes longer is an error and not a latency.
constexpr double kExchangeSecondsMax = 30;
// A device's own, of runtime/base/config.h and runtime/link/client.h.
constexpr double kHandshakeSecondsMax = 1e-3 * kHandshakeDeadlineMs;
constexpr double kAnswerSecondsMax = 1e-3 * kAnswerDeadlineMs;
constexpr double kRetrySecondsMin = 1;
constexpr uint32_t kBackOffDoublingMax = 3;
constexpr double kTurnSeconds = 0.002;  // between two looks at all devices

double now_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

struct Statistics {
  std::vector<double> handshake_s;
  std::vector<double> latency_s;
  uint64_t exchanges = 0;
  uint64_t waits = 0;    // answered without a task
  uint64_t refused = 0;  // updates with another verdict than folded or late
  uint64_t lost = 0;     // sessions
  uint64_t dials = 0;
  uint64_t unreached = 0;  // dials that ended before their handshake did
  uint64_t timeouts = 0;   // handshakes and answers that did not come within the device's deadlines
  std::string last_fault;
};

// Of a device: windows and back-off are drawn from it. One for the whole process.
using Random = std::mt19937;

enum class PeerState : uint8_t { kNew, kConnecting, kGreeting, kIdle, kBusy, kGone };

// One device's connection. The derived classes say what goes through it.
class Peer {
 public:
  // is_storm: leaves as soon as it is welcome.
  Peer(const Identity& identity, TlsKeyExchange exchange, bool is_storm, Statistics& statistics, Random& random)
      : statistics_(statistics), random_(random), identity_(identity), exchange_(exchange), is_storm_(is_storm) {}
  // In place of the identity's key; must outlive the peer.
  void use(const Credentials* credentials) { credentials_ = credentials; }
  virtual ~Peer() { leave(); }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  void connect(const sockaddr_in& address, int poll) {
    poll_ = poll;
    begin_s_ = now_s();
    ++statistics_.dials;
    forget_session();
    state_ = PeerState::kConnecting;
    socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    const int one = 1;
    if (socket_ < 0 || setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0 ||
        (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 &&
         errno != EINPROGRESS)) {
      return fail(std::strerror(errno));
    }
    epoll_event event = {};
    event.events = EPOLLIN | EPOLLOUT | EPOLLET;
    event.data.ptr = this;
    if (epoll_ctl(poll_, EPOLL_CTL_ADD, socket_, &event) != 0) {
      return fail(std::strerror(errno));
    }
    const Transport transport = {&kOps, this};
    const Status begun = credentials_ != nullptr ? session_.begin(transport, *credentials_, "server")
                                                 : session_.begin(transport, identity_, exchange_);
    if (begun != Status::kOk) {
      fail(session_.last_fault_text());
    }
  }

  void on_event() {
    if (state_ == PeerState::kConnecting) {
      const Status status = session_.handshake();
      if (status == Status::kWouldBlock) {
        return;
      }
      if (status != Status::kOk) {
        return fail(session_.last_fault_text());
      }
      statistics_.handshake_s.push_back(now_s() - begin_s_);
      state_ = PeerState::kGreeting;
      begin_s_ = now_s();
      greet();
    }
    (void)session_.flush();
    uint8_t buffer[1024];
    while (state_ != PeerState::kGone) {
      const Result<size_t> size = session_.read(buffer, sizeof buffer);
      if (!size.ok()) {
        return size.status() == Status::kWouldBlock ? void() : fail(session_.last_fault_text());
      }
      on_bytes({buffer, size.value()});
    }
  }

  void begin_exchange() {
    state_ = PeerState::kBusy;
    begin_s_ = now_s();
    ask();
  }
  PeerState state() const { return state_; }
  double begin_s() const { return begin_s_; }
  uint64_t exchange_count() const { return exchange_count_; }
  uint32_t session_count() const { return session_count_; }  // greeted
  // When its window or its back-off is over.
  double due_s() const { return due_s_; }

  // Ends what its device would have given up by now.
  void give_up_late(double now) {
    const bool is_late =
        (state_ == PeerState::kConnecting && now - begin_s_ > kHandshakeSecondsMax) ||
        ((state_ == PeerState::kGreeting || state_ == PeerState::kBusy) && now - begin_s_ > kAnswerSecondsMax);
    if (is_late) {
      ++statistics_.timeouts;
      fail("no answer within the device's deadline");
    }
  }
  void leave() {
    state_ = PeerState::kGone;
    session_.end();
    if (socket_ >= 0) {
      ::close(socket_);
      socket_ = -1;
    }
  }

 protected:
  virtual void greet() = 0;
  virtual void forget_session() {}
  virtual void ask() = 0;
  virtual void on_bytes(std::span<const uint8_t> bytes) = 0;

  void send_bytes(std::span<const uint8_t> bytes) {
    const Result<size_t> size = session_.write(bytes.data(), bytes.size());
    if (!size.ok() || size.value() != bytes.size() || session_.flush() == Status::kClosed) {
      fail("the server does not read");
    }
  }
  void fail(const char* reason) {
    const bool was_reached = state_ != PeerState::kConnecting;
    const bool was_in_exchange = state_ != PeerState::kIdle;
    ++statistics_.lost;
    statistics_.unreached += was_reached ? 0 : 1;
    statistics_.last_fault = reason;
    leave();
    failures_ += failures_ < kBackOffDoublingMax && was_in_exchange ? 1 : 0;
    const double most = kRetrySecondsMin * (1U << failures_);
    due_s_ = now_s() + draw(kRetrySecondsMin, was_reached ? most : std::max(most, window_max_s_));
  }
  void greeted() {
    state_ = PeerState::kIdle;
    failures_ = 0;
    ++session_count_;
  }
  // What the server said last of when to come again.
  void take_window(const gs_RetryWindow& window) {
    window_max_s_ = 1e-3 * window.max_ms;
    due_s_ = now_s() + draw(1e-3 * window.min_ms, window_max_s_);
  }
  bool leave_early() {
    if (is_storm_) {
      leave();
    }
    return is_storm_;
  }
  void start_clock() { sent_s_ = now_s(); }
  void end_exchange(bool is_answered) {
    if (is_answered) {
      statistics_.latency_s.push_back(now_s() - sent_s_);
      ++statistics_.exchanges;
      ++exchange_count_;
    }
    state_ = PeerState::kIdle;
  }

  Statistics& statistics_;

 private:
  double draw(double least, double most) {
    return std::uniform_real_distribution<double>(least, std::max(least, most))(random_);
  }
  static Result<size_t> outcome(ssize_t count) {
    if (count > 0) {
      return static_cast<size_t>(count);
    }
    const bool is_blocked = errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOTCONN;
    return count < 0 && is_blocked ? Status::kWouldBlock : Status::kClosed;
  }
  static Result<size_t> read(void* context, uint8_t* out, size_t size) {
    return outcome(::recv(static_cast<Peer*>(context)->socket_, out, size, 0));
  }
  static Result<size_t> write(void* context, const uint8_t* bytes, size_t size) {
    return outcome(::send(static_cast<Peer*>(context)->socket_, bytes, size, MSG_NOSIGNAL));
  }
  static constexpr TransportOps kOps = {[](void*) { return Status::kOk; }, read, write, [](void*) {}, true};

  Random& random_;
  const Identity& identity_;
  TlsKeyExchange exchange_;
  const Credentials* credentials_ = nullptr;
  bool is_storm_;
  TlsSession session_;
  PeerState state_ = PeerState::kNew;
  int socket_ = -1;
  int poll_ = -1;
  double begin_s_ = 0;
  double sent_s_ = 0;
  double due_s_ = 0;
  double window_max_s_ = 0;
  uint32_t failures_ = 0;
  uint32_t session_count_ = 0;
  uint64_t exchange_count_ = 0;
};

// One of the values that a device uploads: small, and its own in each version.
float value_of(uint32_t device, uint32_t version, uint32_t entry) {
  uint32_t bits = device * 0x9e3779b9U ^ version * 0x85ebca6bU ^ entry * 0xc2b2ae35U;
  bits = (bits ^ (bits >> 15)) * 0x2c1b3c6dU;
  return 1e-6F * (static_cast<float>(bits >> 21) - 1024.0F);
}

// A device that knows of each version only its number and digest, as Task names them.
class DevicePeer final : public Peer {
 public:
  using Peer::Peer;

 private:
  void send(const DeviceMessage& message) {
    uint8_t frame[kFrameSizeMax];
    const Result<size_t> size = encode_frame(message, frame);
    GS_ASSERT(size.ok());
    send_bytes({frame, size.value()});
  }
  void forget_session() override {
    reader_ = FrameReader();
    task_ = {};
  }
  void greet() override {
    DeviceMessage message = {};
    message.which_body = gs_DeviceMessage_hello_tag;
    gs_Hello& hello = message.body.hello;
    hello.protocol_version = kProtocolVersion;
    std::strcpy(hello.firmware_version, "load");
    hello.has_capabilities = true;
    hello.capabilities = {.manifolds = ~0U,
                          .solvers = ~0U,
                          .estimators = ~0U,
                          .encodings = ~0U,
                          .arena_size = 1U << 20,
                          .problems_count = 1,
                          .problems = {"least_squares"},
                          .features = ~0U};
    hello.reset_cause = gs_ResetCause_RESET_CAUSE_POWER_ON;
    hello.sample_count = 1;
    send(message);
  }
  void ask() override {
    if (task_.task_sequence != 0) {
      return answer();
    }
    DeviceMessage message = {};
    message.which_body = gs_DeviceMessage_pull_tag;
    message.body.pull = {.has_model = has_model_, .version = version_, .digest = digest_};
    send(message);
  }
  void on_bytes(std::span<const uint8_t> bytes) override {
    while (!bytes.empty() && state() != PeerState::kGone) {
      bytes = bytes.subspan(reader_.feed(bytes));
      if (reader_.has_frame()) {
        ServerMessage message = {};
        const Status status = decode_message(reader_.payload(), &message);
        reader_.pop();
        status == Status::kOk ? on_message(message) : fail("a message that does not decode");
      }
    }
  }
  void on_message(const ServerMessage& message) {
    switch (message.which_body) {
      case gs_ServerMessage_welcome_tag:
        value_count_ = message.body.welcome.rows * message.body.welcome.cols;
        device_ = message.body.welcome.client_index;
        return leave_early() ? void() : ask();  // who says nothing more is dropped at a deadline
      case gs_ServerMessage_task_tag:
        task_ = message.body.task;
        return state() == PeerState::kGreeting ? greeted() : answer();
      case gs_ServerMessage_wait_tag:
        ++statistics_.waits;
        take_window(message.body.wait.retry);
        return state() == PeerState::kGreeting ? greeted() : end_exchange(false);
      case gs_ServerMessage_ack_tag: {
        const bool counts = message.body.ack.verdict == gs_Verdict_VERDICT_FOLDED ||
                            message.body.ack.verdict == gs_Verdict_VERDICT_LATE;
        if (!counts) {
          ++statistics_.refused;
          statistics_.last_fault = reason_name(message.body.ack.reason);
        }
        take_window(message.body.ack.retry);
        return end_exchange(counts);
      }
      case gs_ServerMessage_refuse_tag:
        return fail(reason_name(message.body.refuse.reason));
      case gs_ServerMessage_drain_tag:
        return fail("the server drains");
      default:  // a version's bytes
        return;
    }
  }
  void answer() {
    const gs_Task task = std::exchange(task_, gs_Task{});
    has_model_ = true;
    version_ = task.version;
    digest_ = task.digest;
    DeviceMessage message = {};
    message.which_body = gs_DeviceMessage_update_tangent_tag;
    gs_UpdateTangent& update = message.body.update_tangent;
    update.task_sequence = task.task_sequence;
    update.base_version = task.version;
    update.steps_done = task.local_step_count;
    update.encoding = gs_Encoding_ENCODING_F32;
    update.value_count = value_count_;
    update.values.size = static_cast<pb_size_t>(value_count_ * sizeof(float));
    GS_ASSERT(update.values.size <= kPayloadSizeMax);  // the run's model is one piece
    for (uint32_t e = 0; e < value_count_; ++e) {
      const float value = value_of(device_, task.version, e);
      std::memcpy(update.values.bytes + e * sizeof value, &value, sizeof value);
    }
    update.crc32c = crc32c(0, update.values.bytes, update.values.size);
    update.loss_before = 1;
    update.loss_after = 1;
    start_clock();
    send(message);
  }

  FrameReader reader_;
  uint32_t value_count_ = 0;
  uint32_t device_ = 0;  // enrolment index
  gs_Task task_ = {};    // to be answered; task_sequence 0: none
  bool has_model_ = false;
  uint32_t version_ = 0;
  uint64_t digest_ = 0;
};

// What a sensor would send to a broker: MQTT 3.1.1.
class MqttPeer final : public Peer {
 public:
  MqttPeer(const Identity& identity, TlsKeyExchange exchange, bool is_storm, Statistics& statistics, Random& random)
      : Peer(identity, exchange, is_storm, statistics, random), name_(identity.name) {}

 private:
  static constexpr size_t kPayloadSize = 980;  // with its header one record, as an update is

  static void add_text(const std::string& text, std::vector<uint8_t>* out) {
    out->push_back(static_cast<uint8_t>(text.size() >> 8));
    out->push_back(static_cast<uint8_t>(text.size()));
    out->insert(out->end(), text.begin(), text.end());
  }
  void send_packet(uint8_t kind, const std::vector<uint8_t>& body) {
    std::vector<uint8_t> packet = {kind};
    for (size_t rest = body.size(); packet.size() == 1 || rest > 0; rest >>= 7) {
      packet.push_back(static_cast<uint8_t>((rest & 0x7f) | (rest > 0x7f ? 0x80 : 0)));
    }
    packet.insert(packet.end(), body.begin(), body.end());
    send_bytes(packet);
  }
  void greet() override {
    std::vector<uint8_t> body;
    add_text("MQTT", &body);
    body.insert(body.end(), {4, 2, 0, 0});  // version 3.1.1, clean session, no keep-alive
    add_text(name_, &body);
    send_packet(0x10, body);
  }
  void ask() override {
    std::vector<uint8_t> body;
    add_text("u/" + name_, &body);
    body.insert(body.end(), {0, 1});  // packet identifier
    body.resize(body.size() + kPayloadSize, 0x5a);
    start_clock();
    send_packet(0x32, body);
  }
  void on_bytes(std::span<const uint8_t> bytes) override {
    // CONNACK and PUBACK are four bytes each, and there is never more than one under way.
    for (const uint8_t byte : bytes) {
      packet_[packet_size_++] = byte;
      if (packet_size_ < sizeof packet_) {
        continue;
      }
      packet_size_ = 0;
      if (packet_[0] == 0x20 && packet_[3] == 0) {
        return leave_early() ? void() : greeted();
      } else if (packet_[0] == 0x40) {
        end_exchange(true);
      } else {
        return fail("the broker refuses");
      }
    }
  }

  std::string name_;
  uint8_t packet_[4] = {};
  size_t packet_size_ = 0;
};

struct Arguments {
  uint16_t port = 0;
  std::string identities;
  uint32_t devices = 0;
  uint32_t seed = 1;
  bool is_mqtt = false;
  bool is_storm = false;
  std::string exchange = "psk_dhe_ke";
  std::string certificates;
};

TlsKeyExchange exchange_of(const Arguments& arguments) {
  return arguments.exchange == "psk_ke" ? TlsKeyExchange::kPsk : TlsKeyExchange::kPskEphemeral;
}

class Load {
 public:
  explicit Load(const Arguments& arguments)
      : arguments_(arguments), poll_(epoll_create1(EPOLL_CLOEXEC)), random_(arguments.seed) {
    address_.sin_family = AF_INET;
    address_.sin_port = htons(arguments.port);
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  }

  // One line NAME,KEY for each device, the key in hexadecimal digits, as `device add --csv` takes them.
  bool read_identities() {
    std::ifstream file(arguments_.identities);
    std::string line;
    while (identities_.size() < arguments_.devices && std::getline(file, line)) {
      const size_t comma = line.find(',');
      const std::string text = "identity = " + line.substr(0, comma) +
                               "\nkey = " + (comma == line.npos ? "" : line.substr(comma + 1)) + "\n";
      uint32_t at = 0;
      identities_.emplace_back();
      if (parse_identity(text, &identities_.back(), &at) != Status::kOk) {
        std::fprintf(stderr, "load: error: %s:%zu: expected NAME,KEY with 64 hexadecimal digits\n",
                     arguments_.identities.c_str(), identities_.size());
        return false;
      }
    }
    if (identities_.size() < arguments_.devices) {
      std::fprintf(stderr, "load: error: %s holds %zu identities of %u\n", arguments_.identities.c_str(),
                   identities_.size(), arguments_.devices);
      return false;
    }
    return true;
  }

  // As `gradstream-handshakes --certificates` writes them: one for each device, in the order of the identities.
  bool read_certificates() {
    if (arguments_.certificates.empty()) {
      return true;
    }
    const auto read = [this](const char* name) {
      std::ifstream file(arguments_.certificates + "/" + name);
      return std::string(std::istreambuf_iterator<char>(file), {});
    };
    const auto with_end = [](const std::string& text) { return std::span<const char>(text.c_str(), text.size() + 1); };
    const std::string authority = read("ca.pem"), key = read("device.key"), all = read("devices.pem");
    const std::string end_line = "-----END CERTIFICATE-----\n";
    for (size_t begin = 0; credentials_.size() < identities_.size();) {
      const size_t end = std::min(all.find(end_line, begin), all.size());
      const std::string one = all.substr(begin, end - begin + end_line.size());
      credentials_.push_back(std::make_unique<Credentials>());
      const CredentialProblem problem =
          credentials_.back()->parse({with_end(authority), with_end(one), with_end(key)}, CertificateRole::kDevice);
      if (problem.text != nullptr) {
        std::fprintf(stderr, "load: error: %s: certificate %zu or its files: %s\n", arguments_.certificates.c_str(),
                     credentials_.size(), problem.text);
        return false;
      }
      begin = std::min(end + end_line.size(), all.size());
    }
    return true;
  }

  bool connect() {
    const TlsKeyExchange exchange = exchange_of(arguments_);
    for (const Identity& identity : identities_) {
      if (arguments_.is_mqtt) {
        peers_.push_back(std::make_unique<MqttPeer>(identity, exchange, arguments_.is_storm, statistics_, random_));
      } else {
        peers_.push_back(std::make_unique<DevicePeer>(identity, exchange, arguments_.is_storm, statistics_, random_));
      }
      peers_.back()->use(credentials_.empty() ? nullptr : credentials_[peers_.size() - 1].get());
    }
    const double begin = now_s();
    size_t next = 0;
    std::vector<Peer*> under_way;
    while ((next < peers_.size() || !under_way.empty()) && now_s() - begin < kConnectSecondsMax) {
      std::erase_if(under_way, [](const Peer* peer) {
        return peer->state() == PeerState::kIdle || peer->state() == PeerState::kGone;
      });
      while (next < peers_.size() && under_way.size() < kConnectingMax) {
        under_way.push_back(peers_[next++].get());
        under_way.back()->connect(address_, poll_);
      }
      turn(0.01);
    }
    std::printf("event=connected devices=%zu lost=%lu seconds=%.3f handshake_p50_ms=%.2f handshake_p99_ms=%.2f%s%s%s\n",
                peers_.size() - statistics_.lost, static_cast<unsigned long>(statistics_.lost), now_s() - begin,
                1e3 * quantile(statistics_.handshake_s, 0.5), 1e3 * quantile(statistics_.handshake_s, 0.99),
                statistics_.last_fault.empty() ? "" : " fault=\"", statistics_.last_fault.c_str(),
                statistics_.last_fault.empty() ? "" : "\"");
    std::fflush(stdout);
    return statistics_.lost == 0 && under_way.empty();
  }

  // Prints when the last one was back, by the clock of the machine: who kills the server knows when it listened again.
  void run_return(double seconds) {
    statistics_ = {};
    std::printf("event=waiting\n");
    std::fflush(stdout);
    const double begin = now_s();
    size_t back = 0;
    double now = begin;
    for (; back < peers_.size() && now - begin < seconds; now = now_s()) {
      back = 0;
      for (const auto& peer : peers_) {
        peer->give_up_late(now);
        if (peer->state() == PeerState::kGone && peer->due_s() <= now) {
          peer->connect(address_, poll_);
        }
        back += peer->state() == PeerState::kIdle && peer->session_count() > 1 ? 1 : 0;
      }
      turn(kTurnSeconds);
    }
    std::printf(
        "event=returned back=%zu at_s=%.3f dials=%lu unreached=%lu lost=%lu timeouts=%lu handshake_p50_ms=%.0f "
        "handshake_p99_ms=%.0f fault=\"%s\"\n",
        back, now, static_cast<unsigned long>(statistics_.dials), static_cast<unsigned long>(statistics_.unreached),
        static_cast<unsigned long>(statistics_.lost), static_cast<unsigned long>(statistics_.timeouts),
        1e3 * quantile(statistics_.handshake_s, 0.5), 1e3 * quantile(statistics_.handshake_s, 0.99),
        statistics_.last_fault.c_str());
    std::fflush(stdout);
  }

  void run_days(double seconds, double share) {
    statistics_ = {};
    const double begin = now_s();
    double now = begin;
    std::vector<bool> leaves(peers_.size());
    std::vector<uint64_t> exchanges(peers_.size());
    for (size_t i = 0; i < peers_.size(); ++i) {
      exchanges[i] = peers_[i]->exchange_count();
    }
    for (bool is_over = false; !is_over; now = now_s()) {
      const bool is_ending = now - begin > seconds;
      size_t connecting = 0;
      is_over = is_ending;
      for (const auto& peer : peers_) {
        peer->give_up_late(now);
        connecting += peer->state() == PeerState::kConnecting || peer->state() == PeerState::kGreeting ? 1 : 0;
        is_over = is_over && (peer->state() == PeerState::kIdle || peer->state() == PeerState::kGone);
      }
      for (size_t i = 0; i < peers_.size() && !is_ending; ++i) {
        Peer& peer = *peers_[i];
        if (peer.exchange_count() != exchanges[i]) {
          exchanges[i] = peer.exchange_count();
          leaves[i] = std::bernoulli_distribution(share)(random_);
        }
        if (peer.state() == PeerState::kIdle && leaves[i]) {
          leaves[i] = false;
          peer.leave();
        } else if (peer.due_s() > now) {
          continue;
        } else if (peer.state() == PeerState::kIdle) {
          peer.begin_exchange();
        } else if (peer.state() == PeerState::kGone && connecting < kConnectingMax) {
          ++connecting;
          peer.connect(address_, poll_);
        }
      }
      turn(kTurnSeconds);
    }
    for (const auto& peer : peers_) {
      peer->leave();
    }
    print_load(now - begin);
  }

  void run_closed(double seconds, size_t count) {
    run(seconds, [&](std::deque<Peer*>& idle, size_t busy) {
      while (busy < count && !idle.empty()) {
        start(idle);
        ++busy;
      }
    });
  }

  void run_open(double seconds, double rate) {
    std::exponential_distribution<double> gap(rate);
    double next = now_s() + gap(random_);
    run(seconds, [&](std::deque<Peer*>& idle, size_t) {
      const double now = now_s();
      while (next <= now) {
        idle.empty() ? void(++behind_) : start(idle);
        next += gap(random_);
      }
    });
  }

 private:
  static double quantile(std::vector<double>& values, double q) {
    if (values.empty()) {
      return 0;
    }
    const auto at = values.begin() + static_cast<ptrdiff_t>(q * static_cast<double>(values.size() - 1));
    std::nth_element(values.begin(), at, values.end());
    return *at;
  }

  void start(std::deque<Peer*>& idle) {
    Peer* const peer = idle.front();
    idle.pop_front();
    peer->begin_exchange();
    busy_.push_back(peer);
  }

  void turn(double seconds) {
    epoll_event events[256];
    const int count = epoll_wait(poll_, events, static_cast<int>(std::size(events)), static_cast<int>(1e3 * seconds));
    for (int i = 0; i < count; ++i) {
      static_cast<Peer*>(events[i].data.ptr)->on_event();
    }
  }

  // feed(idle, number of exchanges under way) begins exchanges.
  template <typename Feed>
  void run(double seconds, const Feed& feed) {
    statistics_ = {};
    behind_ = 0;
    std::deque<Peer*> idle;
    for (const auto& peer : peers_) {
      if (peer->state() == PeerState::kIdle) {
        idle.push_back(peer.get());
      }
    }
    const double begin = now_s();
    double now = begin;
    for (bool is_ending = false; !is_ending || !busy_.empty(); now = now_s()) {
      is_ending = now - begin > seconds;
      std::erase_if(busy_, [&](Peer* peer) {
        if (peer->state() == PeerState::kIdle) {
          idle.push_back(peer);
        }
        return peer->state() != PeerState::kBusy || now - peer->begin_s() > kExchangeSecondsMax;
      });
      if (!is_ending) {
        feed(idle, busy_.size());
      }
      turn(is_ending ? 0.01 : 0.001);
    }
    print_load(now - begin);
  }

  void print_load(double seconds) {
    std::printf(
        "event=load seconds=%.3f exchanges=%lu waits=%lu refused=%lu lost=%lu dials=%lu behind=%lu "
        "latency_p50_ms=%.3f latency_p99_ms=%.3f fault=\"%s\"\n",
        seconds, static_cast<unsigned long>(statistics_.exchanges), static_cast<unsigned long>(statistics_.waits),
        static_cast<unsigned long>(statistics_.refused), static_cast<unsigned long>(statistics_.lost),
        static_cast<unsigned long>(statistics_.dials), static_cast<unsigned long>(behind_),
        1e3 * quantile(statistics_.latency_s, 0.5), 1e3 * quantile(statistics_.latency_s, 0.99),
        statistics_.last_fault.c_str());
    std::fflush(stdout);
  }

  const Arguments arguments_;
  const int poll_;
  sockaddr_in address_ = {};
  std::vector<Identity> identities_;
  std::vector<std::unique_ptr<Credentials>> credentials_;
  Statistics statistics_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::vector<Peer*> busy_;
  Random random_;
  uint64_t behind_ = 0;  // exchanges that were due while all devices were in one
};

int run_program(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("gradstream-load: devices for ./run bench server");
  app.add_option("--port", arguments.port, "of 127.0.0.1");
  app.add_option("--identities", arguments.identities, "lines NAME,KEY");
  app.add_option("--devices", arguments.devices);
  app.add_option("--seed", arguments.seed, "of windows, and of what is drawn in days and open");
  app.add_option("--exchange", arguments.exchange)->check(CLI::IsMember({"psk_ke", "psk_dhe_ke", "certificate"}));
  app.add_option("--certificates", arguments.certificates, "folder, with --exchange certificate");
  app.add_flag("--storm", arguments.is_storm, "each device leaves as soon as it is welcome, and then this ends");
  app.add_flag("--mqtt", arguments.is_mqtt, "the peer is an MQTT broker");
  CLI11_PARSE(app, argc, argv);
  rlimit files = {};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  if (tls_start(nullptr, 0) != Status::kOk) {
    std::fprintf(stderr, "load: error: no randomness for TLS\n");
    return 1;
  }
  Load load(arguments);
  if (!load.read_identities() || !load.read_certificates() || !load.connect()) {
    return 1;
  }
  std::string line;
  while (!arguments.is_storm && std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::string verb;
    double seconds = 0;
    double number = 0;
    words >> verb >> seconds;
    if (verb == "quit") {
      return 0;
    }
    if (verb == "return" && words && seconds > 0) {
      load.run_return(seconds);
      continue;
    }
    words >> number;
    if (!words || seconds <= 0 || number < 0 || (verb != "closed" && verb != "open" && verb != "days")) {
      std::fprintf(stderr,
                   "load: error: expected `closed SECONDS COUNT`, `open SECONDS RATE`, `days SECONDS SHARE`, "
                   "`return SECONDS` or `quit`\n");
      return 2;
    }
    verb == "closed" ? load.run_closed(seconds, static_cast<size_t>(number))
    : verb == "open" ? load.run_open(seconds, number)
                     : load.run_days(seconds, number);
  }
  return 0;
}

}  // namespace
}  // namespace gradstream

int main(int argc, char** argv) { return gradstream::run_program(argc, argv); }
