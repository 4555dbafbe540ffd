// One list of fields for both ways: the function that writes a state reads it too, so that the two cannot differ.
//
//   void Entry::exchange(StateArchive& io) { io.values(stamp_, owner_); io.numbers(shares_); }
//
// Bytes are little-endian, and numbers of real type go by their bits. A reader trusts no size: a list is never longer
// than the bytes that are left. What does not read gives 0, and is_sound() is false from then on.
#ifndef GRADSTREAM_SERVER_BASE_STATE_ARCHIVE_H_
#define GRADSTREAM_SERVER_BASE_STATE_ARCHIVE_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace gradstream {

class StateArchive {
 public:
  // Writes.
  StateArchive() = default;
  // Reads these bytes, which outlive it.
  explicit StateArchive(std::span<const uint8_t> bytes) : rest_(bytes), is_reading_(true) {}

  // What a release lists beyond an earlier form stands behind has_form() of its own. The form is the newest unless it
  // is set, as a reader does by the head of what it reads.
  void set_form(uint8_t form) { form_ = form; }
  bool has_form(uint8_t form) const { return form_ >= form; }

  bool is_reading() const { return is_reading_; }
  bool is_sound() const { return is_sound_; }
  // A reader has found what no writer writes.
  void fail() {
    is_sound_ = false;
    rest_ = {};
  }
  // Whether a reader has read everything.
  bool is_at_end() const { return rest_.empty(); }
  // What a writer has written.
  std::vector<uint8_t> take_bytes() { return std::move(bytes_); }
  std::span<const uint8_t> bytes() const { return bytes_; }

  // Whole numbers, enumerations, numbers of real type and bool.
  template <typename... Values>
  void values(Values&... all) {
    (value(all), ...);
  }

  // As the vector's size and its numbers.
  template <typename T>
  void numbers(std::vector<T>& all) {
    const uint32_t count = exchange_count(all.size(), sizeof(T));
    if (is_reading_) {
      all.assign(count, T());
    }
    block(std::span<T>(all));
  }
  // The same of a size that the state knows; another size is no state of it.
  template <typename T>
  void numbers(std::span<T> all) {
    auto count = static_cast<uint32_t>(all.size());
    value(count);
    if (count != all.size()) {
      fail();
    }
    block(all);
  }
  void text(std::string& all);
  void flags(std::vector<bool>& all);

  // each(element): exchanges one. item_size: bytes that an element takes at least.
  template <typename Container, typename Each>
  void list(Container& all, const Each& each, size_t item_size = 1) {
    const uint32_t count = exchange_count(all.size(), item_size);
    if (is_reading_) {
      all.clear();
      for (uint32_t i = 0; i < count && is_sound_; ++i) {
        all.push_back({});
        each(all.back());
      }
      return;
    }
    for (auto& one : all) {
      each(one);
    }
  }

  // A std::map by a whole number. Keys ascend.
  template <typename Map, typename Each>
  void map(Map& all, const Each& each) {
    const uint32_t count = exchange_count(all.size(), sizeof(typename Map::key_type));
    if (is_reading_) {
      all.clear();
      for (uint32_t i = 0; i < count && is_sound_; ++i) {
        typename Map::key_type key = {};
        value(key);
        each(all.try_emplace(all.end(), key)->second);
      }
      return;
    }
    for (auto& [key, one] : all) {
      typename Map::key_type copy = key;
      value(copy);
      each(one);
    }
  }

  template <typename T, typename Each>
  void optional(std::optional<T>& all, const Each& each) {
    bool is_there = all.has_value();
    value(is_there);
    if (is_reading_) {
      all.reset();
    }
    if (is_there) {
      each(is_reading_ ? all.emplace() : *all);
    }
  }

 private:
  uint32_t exchange_count(size_t size, size_t item_size);
  uint64_t exchange_bits(uint64_t bits, size_t size);
  void exchange_bytes(void* bytes, size_t size);

  // All at once where this machine has the archive's order. Reason: models and memories are most of a state, and the
  // coordinator waits meanwhile.
  template <typename T>
  void block(std::span<T> all) {
    if constexpr (std::endian::native == std::endian::little && std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) {
      exchange_bytes(all.data(), all.size_bytes());
    } else {
      for (T& one : all) {
        value(one);
      }
    }
  }

  template <typename T>
  void value(T& one) {
    if constexpr (std::is_same_v<T, bool>) {
      const uint64_t bits = exchange_bits(one ? 1 : 0, 1);
      one = bits == 1;
      if (bits > 1) {
        fail();
      }
    } else if constexpr (std::is_floating_point_v<T>) {
      using Bits = std::conditional_t<sizeof(T) == sizeof(uint32_t), uint32_t, uint64_t>;
      one = std::bit_cast<T>(static_cast<Bits>(exchange_bits(std::bit_cast<Bits>(one), sizeof(T))));
    } else {
      static_assert(std::is_integral_v<T> || std::is_enum_v<T>);
      one = static_cast<T>(exchange_bits(static_cast<uint64_t>(one), sizeof(T)));
    }
  }

  std::vector<uint8_t> bytes_;
  std::span<const uint8_t> rest_;
  uint8_t form_ = UINT8_MAX;
  bool is_reading_ = false;
  bool is_sound_ = true;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_BASE_STATE_ARCHIVE_H_
