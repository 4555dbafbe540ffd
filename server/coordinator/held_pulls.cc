#include "server/coordinator/held_pulls.h"

#include <algorithm>
#include <functional>

#include "runtime/base/status.h"

namespace gradstream {
namespace {

// Entries of a queue that may be over before it is looked through, beside as many as are held. Reason: below that a
// look costs more than the memory.
constexpr size_t kOverMax = 64;
constexpr uint32_t kHoldBits = (1U << 30) - 1;

}  // namespace

bool HeldPulls::holds(const Due& due) const {
  const auto pull = pulls_.find(due.session);
  return pull != pulls_.end() && pull->second.due_ms == due.at_ms;
}

bool HeldPulls::holds(const Begun& begun) const {
  const auto pull = pulls_.find(begun.session);
  return pull != pulls_.end() && pull->second.begun_ms() == begun.at_ms;
}

bool HeldPulls::is_asleep(const Begun& begun) const { return holds(begun) && is_asleep(begun.session); }

bool HeldPulls::is_asleep(SessionId session) const {
  const auto pull = pulls_.find(session);
  return pull != pulls_.end() && pull->second.is_woken == 0;
}

void HeldPulls::push(SessionId session, uint64_t at_ms) {
  due_.push_back({at_ms, next_number_++, session});
  std::push_heap(due_.begin(), due_.end(), std::greater<>());
}

// The front of each queue is held, and neither is longer than twice what is held.
void HeldPulls::settle() {
  while (!due_.empty() && !holds(due_.front())) {
    std::pop_heap(due_.begin(), due_.end(), std::greater<>());
    due_.pop_back();
  }
  while (!order_.empty() && !holds(order_.front())) {
    order_.pop_front();
  }
  const size_t most = 2 * pulls_.size() + kOverMax;
  if (due_.size() > most) {
    std::erase_if(due_, [this](const Due& due) { return !holds(due); });
    std::make_heap(due_.begin(), due_.end(), std::greater<>());
  }
  if (order_.size() > most) {
    std::erase_if(order_, [this](const Begun& begun) { return !holds(begun); });
  }
  if (asleep_.size() > most) {
    std::erase_if(asleep_, [this](const Begun& begun) { return !is_asleep(begun); });
  }
}

void HeldPulls::hold(SessionId session, const gs_Pull& pull, uint64_t now_ms, uint32_t hold_ms) {
  GS_ASSERT(!contains(session) && hold_ms <= kServerHoldMaxMs);
  Pull& held = pulls_[session];
  held.digest = pull.digest;
  held.version = pull.version;
  held.has_model = pull.has_model ? 1 : 0;
  held.due_ms = now_ms + hold_ms;
  held.hold_ms = hold_ms & kHoldBits;
  push(session, held.due_ms);
  order_.push_back({now_ms, session});
  asleep_.push_back({now_ms, session});
  settle();
}

void HeldPulls::wake(SessionId session, uint64_t at_ms) {
  Pull& held = pulls_.at(session);
  held.is_woken = 1;
  if (at_ms >= held.due_ms) {
    return;  // its own end comes first
  }
  const uint64_t begun_ms = held.begun_ms();
  held.due_ms = std::max(begun_ms, at_ms);
  held.hold_ms = static_cast<uint32_t>(held.due_ms - begun_ms) & kHoldBits;
  push(session, held.due_ms);
  settle();
}

bool HeldPulls::erase(SessionId session) { return take(session).has_value(); }

std::optional<EndedHold> HeldPulls::take(SessionId session) {
  const auto held = pulls_.find(session);
  if (held == pulls_.end()) {
    return std::nullopt;
  }
  EndedHold ended;
  ended.session = session;
  ended.pull.has_model = held->second.has_model != 0;
  ended.pull.version = held->second.version;
  ended.pull.digest = held->second.digest;
  pulls_.erase(held);
  settle();
  return ended;
}

std::optional<EndedHold> HeldPulls::take_due(uint64_t now_ms) {
  return next_due_ms() <= now_ms ? take(due_.front().session) : std::nullopt;
}

std::vector<SessionId> HeldPulls::sleepers() {
  std::erase_if(asleep_, [this](const Begun& begun) { return !is_asleep(begun); });
  std::vector<SessionId> out;
  for (const Begun& begun : asleep_) {
    out.push_back(begun.session);
  }
  // One that was held twice in a millisecond stands there twice.
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

std::vector<SessionId> HeldPulls::sessions() const {
  std::vector<SessionId> out;
  out.reserve(pulls_.size());
  for (const auto& [session, held] : pulls_) {
    out.push_back(session);
  }
  return out;
}

}  // namespace gradstream
