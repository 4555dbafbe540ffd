// A queue of large values that allocates nothing while it stays as long as it was: an element whose value has been
// taken is kept for a value that comes. A std::deque has one value of half a kilobyte or more in each of its blocks,
// and allocates and frees a block for each.
#ifndef GRADSTREAM_SERVER_BASE_RECYCLED_QUEUE_H_
#define GRADSTREAM_SERVER_BASE_RECYCLED_QUEUE_H_

#include <cstddef>
#include <list>
#include <utility>

namespace gradstream {

template <typename Value>
class RecycledQueue {
 public:
  // spare_count_max: elements that are kept.
  explicit RecycledQueue(size_t spare_count_max) : spare_count_max_(spare_count_max) {}

  bool empty() const { return values_.empty(); }
  size_t size() const { return values_.size(); }
  size_t spare_count() const { return spare_.size(); }
  // The value that came first. What is taken out of it is moved: its element may be kept as it is left.
  Value& front() { return values_.front(); }
  auto begin() const { return values_.begin(); }
  auto end() const { return values_.end(); }

  void push(Value value) {
    if (spare_.empty()) {
      values_.push_back(std::move(value));
      return;
    }
    spare_.front() = std::move(value);
    values_.splice(values_.end(), spare_, spare_.begin());
  }
  void pop() {
    if (spare_.size() < spare_count_max_) {
      spare_.splice(spare_.begin(), values_, values_.begin());
    } else {
      values_.pop_front();
    }
  }
  template <typename Predicate>
  void remove_if(const Predicate& predicate) {
    values_.remove_if(predicate);
  }

 private:
  const size_t spare_count_max_;
  std::list<Value> values_;
  std::list<Value> spare_;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_BASE_RECYCLED_QUEUE_H_
