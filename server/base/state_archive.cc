#include "server/base/state_archive.h"

#include <algorithm>
#include <array>

namespace gradstream {

uint32_t StateArchive::exchange_count(size_t size, size_t item_size) {
  const auto count = static_cast<uint32_t>(exchange_bits(size, sizeof(uint32_t)));
  if (is_reading_ && count > rest_.size() / item_size) {
    fail();
    return 0;
  }
  return count;
}

uint64_t StateArchive::exchange_bits(uint64_t bits, size_t size) {
  if (!is_reading_) {
    std::array<uint8_t, sizeof bits> text = {};
    for (size_t i = 0; i < text.size(); ++i) {
      text[i] = static_cast<uint8_t>(bits >> (8 * i));
    }
    bytes_.insert(bytes_.end(), text.begin(), text.begin() + static_cast<std::ptrdiff_t>(size));
    return bits;
  }
  if (size > rest_.size()) {
    fail();
    return 0;
  }
  bits = 0;
  for (size_t i = 0; i < size; ++i) {
    bits |= static_cast<uint64_t>(rest_[i]) << (8 * i);
  }
  rest_ = rest_.subspan(size);
  return bits;
}

void StateArchive::exchange_bytes(void* bytes, size_t size) {
  auto* const first = static_cast<uint8_t*>(bytes);
  if (!is_reading_) {
    bytes_.insert(bytes_.end(), first, first + size);
    return;
  }
  if (size > rest_.size()) {
    fail();
    std::fill_n(first, size, uint8_t{0});
    return;
  }
  std::copy_n(rest_.begin(), size, first);
  rest_ = rest_.subspan(size);
}

void StateArchive::text(std::string& all) {
  list(all, [this](char& one) { value(one); });
}

void StateArchive::flags(std::vector<bool>& all) {
  std::vector<uint8_t> bytes(all.begin(), all.end());
  numbers(bytes);
  all.assign(bytes.begin(), bytes.end());
}

}  // namespace gradstream
