#include "server/link/session_pool.h"

#include <utility>

namespace gradstream {

SessionPool::SessionPool(asio::io_context& io, TlsContext& context, const SessionLimits& limits,
                         ShellCounters& counters, FaultLines& fault_lines, SessionOwner& owner)
    : io_(io), context_(context), limits_(limits), counters_(counters), fault_lines_(fault_lines), owner_(owner) {}

SessionPool::~SessionPool() { abort_all(); }

void SessionPool::begin(SessionId id, Tcp::socket socket, Arrival arrival, std::shared_ptr<QueueGauge> gauge) {
  auto session = std::make_shared<Session>(id, std::move(socket), std::move(arrival), std::move(gauge), context_,
                                           limits_, counters_, fault_lines_, frames_, *this);
  sessions_[id] = session;
  session->start();
}

void SessionPool::follow(SessionOrder order) {
  const auto found = sessions_.find(order.session);
  if (found == sessions_.end()) {
    return;
  }
  const std::shared_ptr<Session> session = found->second;
  switch (order.kind) {
    case SessionOrder::Kind::kSend:
      session->queue(std::move(order.frame));
      if (touched_.empty() || touched_.back() != order.session) {
        touched_.push_back(order.session);
      }
      break;
    case SessionOrder::Kind::kOverload:
      session->overload();
      break;
    case SessionOrder::Kind::kClose:
      session->close(order.reason);
      break;
    case SessionOrder::Kind::kAnswerClaim:
      session->answer_claim(order.verdict);
      break;
    case SessionOrder::Kind::kReplace:
      if (session->is_silent()) {
        ++counters_.arrivals.greetings_replaced;
        session->close(gs_Reason_REASON_NEWER_SESSION);
      }
      break;
    case SessionOrder::Kind::kYield:
      session->yield(order.retry);
      break;
    case SessionOrder::Kind::kRenew:
      session->drain(drain_message(order.retry));
      break;
    case SessionOrder::Kind::kAdmit:
      session->admit(order.refusal, order.device);
      break;
    case SessionOrder::Kind::kEvict:
      if (session->is_half_open() || session->is_closing()) {
        session->abort();
      }
      break;
  }
}

void SessionPool::flush() {
  for (const SessionId id : touched_) {
    if (Session* const session = find(id); session != nullptr) {
      session->flush();
    }
  }
  touched_.clear();
}

void SessionPool::drain(const gs_RetryWindow& retry) {
  const ServerMessage message = drain_message(retry);
  std::vector<std::shared_ptr<Session>> sessions;
  sessions.reserve(sessions_.size());
  for (const auto& [id, session] : sessions_) {
    sessions.push_back(session);
  }
  for (const auto& session : sessions) {
    if (session->is_half_open()) {
      session->abort();
    } else {
      session->drain(message);
    }
  }
}

void SessionPool::abort_all() {
  while (!sessions_.empty()) {
    const auto session = sessions_.begin()->second;
    session->abort();
    sessions_.erase(session->id());
  }
}

Session* SessionPool::find(SessionId session) const {
  const auto found = sessions_.find(session);
  return found == sessions_.end() ? nullptr : found->second.get();
}

// ---- Sessions' reports ---------------------------------------------------------------------------------------------

void SessionPool::on_session_established(SessionId session, uint32_t device, uint32_t claim) {
  owner_.on_session_established(session, device, claim);
}

void SessionPool::on_session_unregistered(SessionId session, const std::string& name) {
  owner_.on_session_unregistered(session, name);
}

void SessionPool::on_session_message(SessionId session, uint32_t device, const DeviceMessage& message) {
  owner_.on_session_message(session, device, message);
}

void SessionPool::on_session_claim(SessionId session, uint32_t claim, const ClaimRequest& request) {
  owner_.on_session_claim(session, claim, request);
}

void SessionPool::on_session_ended(SessionId session) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) {
    return;
  }
  // The session is inside its own call: it goes when that has returned.
  asio::post(io_, [keep = std::move(found->second)] {});
  sessions_.erase(found);
  owner_.on_session_ended(session);
}

}  // namespace gradstream
