#include "server/link/io_thread.h"

#include <csignal>
#include <iterator>
#include <utility>

#include <unistd.h>

#include "server/base/log.h"
#include "server/base/ports.h"

namespace gradstream {

namespace {

// The entries go, and their memory stays where it is not too much.
template <typename Entry>
void keep_memory(std::vector<Entry>& from, std::vector<Entry>* to) {
  from.clear();
  if (from.capacity() <= kUsedReportCountMax) {
    to->swap(from);
  }
}

}  // namespace

IoThread::NewSession::NewSession(Tcp::socket socket, Arrival its_arrival, std::shared_ptr<QueueGauge> its_gauge)
    : arrival(std::move(its_arrival)), gauge(std::move(its_gauge)) {
  ErrorCode error;
  const int released = socket.release(error);
  descriptor = error ? -1 : released;
}

IoThread::NewSession::~NewSession() {
  if (descriptor >= 0) {
    ::close(descriptor);
  }
}

IoThread::IoThread(asio::io_context& home, PskLookup lookup, const TlsPolicy& policy, const CredentialBoard* board,
                   const SessionLimits& limits, FaultLines& fault_lines, Reports on_reports)
    : home_(home),
      on_reports_(std::move(on_reports)),
      home_work_(asio::make_work_guard(home)),
      work_(asio::make_work_guard(io_)),
      tls_(std::move(lookup), policy, board),
      pool_(io_, tls_, limits, counters_, fault_lines, *this) {}

IoThread::~IoThread() { stop(); }

Status IoThread::start() {
  const Status status = tls_.start();
  if (status == Status::kOk) {
    beaten_ms_ = steady_ms();
    thread_ = std::thread([this] { loop(); });
  }
  return status;
}

void IoThread::loop() {
  sigset_t all;  // signals are the main thread's
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  io_.run();
}

void IoThread::stop() {
  if (!thread_.joinable()) {
    home_work_.reset();
    return;
  }
  FramePool unused;
  deliver(unused);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_stopping_ = true;
  }
  room_.notify_one();
  asio::post(io_, [this] {
    take_items();
    pool_.abort_all();
    work_.reset();  // the loop ends when the last handler of these sessions has run
  });
  thread_.join();
  home_work_.reset();
}

// ---- Orders: home's side -------------------------------------------------------------------------------------------

void IoThread::begin(SessionId id, Tcp::socket socket, Arrival arrival, std::shared_ptr<QueueGauge> gauge) {
  Item item;
  item.order.session = id;
  item.begin = std::make_unique<NewSession>(std::move(socket), std::move(arrival), std::move(gauge));
  pending_.push_back(std::move(item));
}

void IoThread::order(SessionOrder order) { pending_.push_back({std::move(order), nullptr, nullptr}); }

void IoThread::drain(const gs_RetryWindow& retry) {
  pending_.push_back({{}, nullptr, std::make_unique<gs_RetryWindow>(retry)});
}

void IoThread::deliver(FramePool& frames) {
  if (pending_.empty()) {
    return;
  }
  bool was_empty = false;
  FrameList sent;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    was_empty = items_.empty();
    if (was_empty) {
      items_.swap(pending_);
    } else {
      std::move(pending_.begin(), pending_.end(), std::back_inserter(items_));
    }
    sent.swap(sent_);
  }
  pending_.clear();
  frames.take_back_all(sent);
  if (was_empty) {
    asio::post(io_, [this] { take_items(); });
  }
}

void IoThread::beat() {
  if (!is_beat_due_.exchange(true)) {
    asio::post(io_, [this] {
      beaten_ms_ = steady_ms();
      is_beat_due_ = false;
    });
  }
}

void IoThread::take_reports() {
  std::vector<SessionReport> reports = std::exchange(handled_, {});
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    reports.swap(reports_);
  }
  room_.notify_one();
  on_reports_(reports);
  keep_memory(reports, &handled_);
}

// ---- Orders: this thread's side ------------------------------------------------------------------------------------

void IoThread::take_items() {
  std::vector<Item> items = std::exchange(followed_, {});
  FrameList sent = pool_.frames().release();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    items.swap(items_);
    sent_.splice(sent_.end(), sent);
  }
  for (Item& item : items) {
    take(item);
  }
  pool_.flush();
  keep_memory(items, &followed_);
}

void IoThread::take(Item& item) {
  if (item.drain) {
    pool_.drain(*item.drain);
  } else if (item.begin) {
    Tcp::socket socket(io_);
    ErrorCode error;
    socket.assign(item.begin->arrival.peer.protocol(), item.begin->descriptor, error);
    if (error) {  // no memory for it: as if the peer had left
      on_session_ended(item.order.session);
      return;
    }
    item.begin->descriptor = -1;
    pool_.begin(item.order.session, std::move(socket), std::move(item.begin->arrival), item.begin->gauge);
  } else {
    pool_.follow(std::move(item.order));
  }
}

// ---- Reports -------------------------------------------------------------------------------------------------------

void IoThread::on_session_established(SessionId session, uint32_t device, uint32_t claim) {
  SessionReport report;
  report.kind = SessionReport::Kind::kEstablished;
  report.session = session;
  report.device = device;
  report.claim = claim;
  send(std::move(report));
}

void IoThread::on_session_unregistered(SessionId session, const std::string& name) {
  SessionReport report;
  report.kind = SessionReport::Kind::kUnregistered;
  report.session = session;
  report.name = name;
  send(std::move(report));
}

void IoThread::on_session_message(SessionId session, uint32_t device, const DeviceMessage& message) {
  SessionReport report;
  report.kind = SessionReport::Kind::kMessage;
  report.session = session;
  report.device = device;
  report.message = message;
  send(std::move(report));
}

void IoThread::on_session_claim(SessionId session, uint32_t claim, const ClaimRequest& request) {
  SessionReport report;
  report.kind = SessionReport::Kind::kClaim;
  report.session = session;
  report.claim = claim;
  report.request = std::make_unique<SecretValue<ClaimRequest>>(request);
  send(std::move(report));
}

void IoThread::on_session_key_change(SessionId session, uint32_t device, const KeyChange& change) {
  SessionReport report;
  report.kind = SessionReport::Kind::kKeyChange;
  report.session = session;
  report.device = device;
  report.key_change = std::make_unique<KeyChange>(change);
  send(std::move(report));
}

void IoThread::on_session_stays(SessionId session, bool is_uploading) {
  SessionReport report;
  report.kind = SessionReport::Kind::kStays;
  report.session = session;
  report.is_uploading = is_uploading;
  send(std::move(report));
}

void IoThread::on_session_closing(SessionId session) {
  SessionReport report;
  report.kind = SessionReport::Kind::kClosing;
  report.session = session;
  send(std::move(report));
}

void IoThread::on_session_ended(SessionId session) {
  SessionReport report;
  report.kind = SessionReport::Kind::kEnded;
  report.session = session;
  send(std::move(report));
}

void IoThread::send(SessionReport report) {
  bool was_empty = false;
  {
    std::unique_lock<std::mutex> lock(mutex_);
    room_.wait(lock, [this] { return reports_.size() < kReportCountMax || is_stopping_; });
    was_empty = reports_.empty();
    reports_.push_back(std::move(report));
  }
  if (was_empty) {
    asio::post(home_, [this] { take_reports(); });
  }
}

}  // namespace gradstream
