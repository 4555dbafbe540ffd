// How often something may happen: a bucket of `burst` events that is refilled by the clock, kept as one number
// (generic cell rate algorithm, ITU-T I.371, virtual scheduling).
#ifndef GRADSTREAM_SERVER_BASE_RATE_LIMIT_H_
#define GRADSTREAM_SERVER_BASE_RATE_LIMIT_H_

#include <algorithm>
#include <cstdint>

namespace gradstream {

struct RateLimit {
  uint32_t per_second = 0;  // events in each period in the long run; 0: no limit
  uint32_t burst = 1;       // events at one moment, at least 1
  uint32_t period_s = 1;
};

// One bucket, full at first. Times are of one clock that never goes back, below 2^44 ms.
class RateMeter {
 public:
  // Whether an event at now_ms is within the limit. It counts if it is; one beyond the limit costs nothing.
  // count: that one event is worth so many. It is admitted where one is, and the rest is made up for later.
  bool admit(const RateLimit& limit, uint64_t now_ms, uint64_t count = 1) {
    if (limit.per_second == 0) {
      return true;
    }
    const uint64_t now_ns = now_ms * 1'000'000;
    const uint64_t interval_ns = limit.period_s * 1'000'000'000ULL / limit.per_second;
    if (due_ns_ > now_ns + interval_ns * (limit.burst - 1)) {
      return false;
    }
    due_ns_ = std::max(due_ns_, now_ns) + interval_ns * count;
    return true;
  }

 private:
  uint64_t due_ns_ = 0;  // when the bucket is full again
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_BASE_RATE_LIMIT_H_
