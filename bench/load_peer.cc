#include "bench/load_peer.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/base/config.h"

namespace gradstream {
namespace {

// A device's own, of runtime/base/config.h and runtime/link/client.h.
constexpr double kHandshakeSecondsMax = 1e-3 * kHandshakeDeadlineMs;
constexpr double kAnswerSecondsMax = 1e-3 * kAnswerDeadlineMs;
constexpr double kRetrySecondsMin = 1;
constexpr uint32_t kBackOffDoublingMax = 3;

}  // namespace

double load_now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void LoadPeer::connect(const sockaddr_in& address, int poll) {
  poll_ = poll;
  begin_s_ = load_now_s();
  ++statistics_.dials;
  forget_session();
  state_ = LoadPeerState::kConnecting;
  socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  const int one = 1;
  if (socket_ < 0 || setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0 ||
      (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 && errno != EINPROGRESS)) {
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

void LoadPeer::on_event() {
  if (state_ == LoadPeerState::kConnecting) {
    const Status status = session_.handshake();
    if (status == Status::kWouldBlock) {
      return;
    }
    if (status != Status::kOk) {
      return fail(session_.last_fault_text());
    }
    statistics_.handshake_s.push_back(load_now_s() - begin_s_);
    state_ = LoadPeerState::kGreeting;
    begin_s_ = load_now_s();
    greet();
  }
  (void)session_.flush();
  uint8_t buffer[1024];
  while (state_ != LoadPeerState::kGone) {
    const Result<size_t> size = session_.read(buffer, sizeof buffer);
    if (!size.ok()) {
      return size.status() == Status::kWouldBlock ? void() : fail(session_.last_fault_text());
    }
    on_bytes({buffer, size.value()});
  }
}

void LoadPeer::begin_exchange() {
  state_ = LoadPeerState::kBusy;
  begin_s_ = load_now_s();
  ask();
}

void LoadPeer::give_up_late(double now) {
  const bool is_late =
      (state_ == LoadPeerState::kConnecting && now - begin_s_ > kHandshakeSecondsMax) ||
      ((state_ == LoadPeerState::kGreeting || state_ == LoadPeerState::kBusy) && now - begin_s_ > kAnswerSecondsMax);
  if (is_late) {
    ++statistics_.timeouts;
    fail("no answer within the device's deadline");
  }
}

void LoadPeer::leave() {
  state_ = LoadPeerState::kGone;
  session_.end();
  if (socket_ >= 0) {
    ::close(socket_);
    socket_ = -1;
  }
}

void LoadPeer::send_bytes(std::span<const uint8_t> bytes) {
  const Result<size_t> size = session_.write(bytes.data(), bytes.size());
  if (!size.ok() || size.value() != bytes.size() || session_.flush() == Status::kClosed) {
    fail("the server does not read");
  }
}

void LoadPeer::fail(const char* reason) {
  const bool was_reached = state_ != LoadPeerState::kConnecting;
  const bool was_in_exchange = state_ != LoadPeerState::kIdle;
  ++statistics_.lost;
  statistics_.unreached += was_reached ? 0 : 1;
  statistics_.last_fault = reason;
  leave();
  failures_ += failures_ < kBackOffDoublingMax && was_in_exchange ? 1 : 0;
  const double most = kRetrySecondsMin * (1U << failures_);
  const double wait_s = draw(kRetrySecondsMin, was_reached ? most : std::max(most, window_max_s_));
  due_s_ = load_now_s() + wait_s;
  on_lost(wait_s);
}

void LoadPeer::leave_for(const gs_RetryWindow& window, const char* reason) {
  if (window.max_ms == 0) {
    return fail(reason);
  }
  ++statistics_.lost;
  statistics_.last_fault = reason;
  leave();
  const double wait_s = draw(1e-3 * window.min_ms, 1e-3 * window.max_ms);
  due_s_ = load_now_s() + wait_s;
  on_lost(wait_s);
}

void LoadPeer::greeted() {
  state_ = LoadPeerState::kIdle;
  failures_ = 0;
  ++session_count_;
}

void LoadPeer::take_window(const gs_RetryWindow& window) {
  window_max_s_ = 1e-3 * window.max_ms;
  due_s_ = load_now_s() + draw(1e-3 * window.min_ms, window_max_s_);
}

bool LoadPeer::leave_early() {
  if (is_storm_) {
    leave();
  }
  return is_storm_;
}

void LoadPeer::start_clock() { sent_s_ = load_now_s(); }

void LoadPeer::end_exchange(bool is_answered) {
  if (is_answered) {
    statistics_.latency_s.push_back(load_now_s() - sent_s_);
    ++statistics_.exchanges;
    ++exchange_count_;
  }
  state_ = LoadPeerState::kIdle;
}

double LoadPeer::draw(double least, double most) {
  return std::uniform_real_distribution<double>(least, std::max(least, most))(random_);
}

Result<size_t> LoadPeer::outcome(ssize_t count) {
  if (count > 0) {
    return static_cast<size_t>(count);
  }
  const bool is_blocked = errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOTCONN;
  return count < 0 && is_blocked ? Status::kWouldBlock : Status::kClosed;
}

Result<size_t> LoadPeer::read(void* context, uint8_t* out, size_t size) {
  return outcome(::recv(static_cast<LoadPeer*>(context)->socket_, out, size, 0));
}

Result<size_t> LoadPeer::write(void* context, const uint8_t* bytes, size_t size) {
  return outcome(::send(static_cast<LoadPeer*>(context)->socket_, bytes, size, MSG_NOSIGNAL));
}

const TransportOps LoadPeer::kOps = {[](void*) { return Status::kOk; }, read, write, [](void*) {}, true};

}  // namespace gradstream
