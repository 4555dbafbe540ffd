// What is to come in virtual time, earliest first, and of one moment in the order in which it was pushed: the same on
// every machine.
#ifndef GRADSTREAM_SIM_EVENT_QUEUE_H_
#define GRADSTREAM_SIM_EVENT_QUEUE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace gradstream {

template <typename Kind>
struct TimedEvent {
  uint64_t at_ms = 0;
  uint64_t order = 0;  // of its push, from 1
  Kind kind = {};
  uint32_t device = 0;
  uint64_t session = 0;
  std::vector<uint8_t> bytes;
};

template <typename Kind>
class EventQueue {
 public:
  using Event = TimedEvent<Kind>;

  bool empty() const { return heap_.empty(); }
  size_t size() const { return heap_.size(); }
  uint64_t next_ms() const { return heap_.front().at_ms; }

  void push(uint64_t at_ms, Kind kind, uint32_t device, uint64_t session, std::vector<uint8_t> bytes) {
    heap_.push_back({at_ms, ++order_, kind, device, session, std::move(bytes)});
    std::push_heap(heap_.begin(), heap_.end(), is_later);
  }

  // Not empty.
  Event pop() {
    std::pop_heap(heap_.begin(), heap_.end(), is_later);
    Event event = std::move(heap_.back());
    heap_.pop_back();
    return event;
  }

  // Forgets events for which is_stale(event); the order of the others stays.
  template <typename Predicate>
  void forget(Predicate is_stale) {
    std::erase_if(heap_, is_stale);
    std::make_heap(heap_.begin(), heap_.end(), is_later);
  }

 private:
  static bool is_later(const Event& a, const Event& b) {
    return a.at_ms != b.at_ms ? a.at_ms > b.at_ms : a.order > b.order;
  }

  std::vector<Event> heap_;
  uint64_t order_ = 0;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SIM_EVENT_QUEUE_H_
