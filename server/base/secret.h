// Keys, and what holds them, that leave no copy in memory. Each type here overwrites its bytes with zeros when its life
// ends. It does so with explicit_bzero(), which no compiler leaves out as a store that nobody reads.
//
// A copy is a secret of its own and wipes itself. What is read out of a secret (a span, a reference) lives no longer
// than the secret; who copies bytes out of it must wipe them.
#ifndef GRADSTREAM_SERVER_BASE_SECRET_H_
#define GRADSTREAM_SERVER_BASE_SECRET_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include <string.h>

namespace gradstream {

// A key of kSize bytes, zeros at first. An assignment overwrites the key that stood here; a move leaves zeros behind.
template <size_t kSize>
class Secret {
 public:
  Secret() = default;
  explicit Secret(std::span<const uint8_t, kSize> bytes) { std::copy(bytes.begin(), bytes.end(), begin()); }
  Secret(const Secret&) = default;
  Secret& operator=(const Secret&) = default;
  Secret(Secret&& other) noexcept : bytes_(other.bytes_) { other.wipe(); }
  Secret& operator=(Secret&& other) noexcept {
    if (this != &other) {
      bytes_ = other.bytes_;
      other.wipe();
    }
    return *this;
  }
  ~Secret() { wipe(); }

  // Zeros from now on.
  void wipe() { explicit_bzero(bytes_.data(), kSize); }
  void fill(uint8_t byte) { bytes_.fill(byte); }

  static constexpr size_t size() { return kSize; }
  uint8_t* data() { return bytes_.data(); }
  const uint8_t* data() const { return bytes_.data(); }
  uint8_t* begin() { return data(); }
  uint8_t* end() { return data() + kSize; }
  const uint8_t* begin() const { return data(); }
  const uint8_t* end() const { return data() + kSize; }
  uint8_t& operator[](size_t at) { return bytes_[at]; }
  uint8_t operator[](size_t at) const { return bytes_[at]; }
  operator std::span<const uint8_t, kSize>() const { return bytes_; }  // NOLINT: implicit on purpose

  // Looks at every byte, so that its time does not tell where two keys differ.
  friend bool operator==(const Secret& a, const Secret& b) {
    uint8_t difference = 0;
    for (size_t i = 0; i < kSize; ++i) {
      difference = static_cast<uint8_t>(difference | (a.bytes_[i] ^ b.bytes_[i]));
    }
    return difference == 0;
  }

 private:
  std::array<uint8_t, kSize> bytes_ = {};
};

// A record in plain bytes that holds a key beside other things.
template <typename Value>
class SecretValue {
  static_assert(std::is_trivially_copyable_v<Value>);

 public:
  SecretValue() = default;
  explicit SecretValue(const Value& value) : value_(value) {}
  ~SecretValue() { explicit_bzero(&value_, sizeof value_); }
  SecretValue(const SecretValue&) = delete;
  SecretValue& operator=(const SecretValue&) = delete;

  Value& operator*() { return value_; }
  const Value& operator*() const { return value_; }
  Value* operator->() { return &value_; }
  const Value* operator->() const { return &value_; }

 private:
  Value value_ = {};
};

// A text with a key in it: a file, or a line of one. reserve() first: a string that outgrows its block leaves the old
// block as it is.
class SecretText {
 public:
  SecretText() = default;
  ~SecretText() {
    text_.resize(text_.capacity());  // also what a longer text of before has left
    explicit_bzero(text_.data(), text_.size());
  }
  SecretText(const SecretText&) = delete;
  SecretText& operator=(const SecretText&) = delete;

  std::string& operator*() { return text_; }
  const std::string& operator*() const { return text_; }
  std::string* operator->() { return &text_; }
  const std::string* operator->() const { return &text_; }

 private:
  std::string text_;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_BASE_SECRET_H_
