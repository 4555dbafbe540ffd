// The memory of frames on their way to peers. A frame is an element of a list, and moves from list to list whole, from
// whoever encodes it to the queue of its session. When it has been sent its element comes back here with its bytes'
// memory, for the next frame of any session. So a server that is busy allocates nothing for a message.
#ifndef GRADSTREAM_SERVER_LINK_FRAME_POOL_H_
#define GRADSTREAM_SERVER_LINK_FRAME_POOL_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <span>
#include <utility>
#include <vector>

namespace gradstream {

using FrameList = std::list<std::vector<uint8_t>>;

// Elements that are kept. Reason: one commit of 64 records releases an Ack, a model and a Task for each; with the
// memory of the largest frame they take 256 KB.
inline constexpr size_t kSpareFrameCountMax = 256;

// Of one thread. Where frames are made on one and sent from another, release() and take_back_all() bring them home.
class FramePool {
 public:
  // A list of one frame, a copy of these bytes.
  FrameList make(std::span<const uint8_t> bytes) {
    FrameList frame;
    if (spare_.empty()) {
      frame.emplace_back(bytes.begin(), bytes.end());
    } else {
      frame.splice(frame.end(), spare_, spare_.begin());
      frame.front().assign(bytes.begin(), bytes.end());
    }
    return frame;
  }
  // Takes the first frame out of a list.
  void take_back(FrameList& frames) {
    if (spare_.size() < kSpareFrameCountMax) {
      spare_.splice(spare_.begin(), frames, frames.begin());
    } else {
      frames.pop_front();
    }
  }
  void take_back_all(FrameList& frames) {
    while (!frames.empty()) {
      take_back(frames);
    }
  }
  // All that is spare, for another pool.
  FrameList release() { return std::exchange(spare_, {}); }
  size_t spare_count() const { return spare_.size(); }

 private:
  FrameList spare_;  // the one that came back last is the first, as the processor's cache may have it still
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_LINK_FRAME_POOL_H_
