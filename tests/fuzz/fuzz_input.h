// What the fuzz targets share: a reader that turns the fuzzer's bytes into choices, and the check that ends a run.
#ifndef GRADSTREAM_TESTS_FUZZ_FUZZ_INPUT_H_
#define GRADSTREAM_TESTS_FUZZ_FUZZ_INPUT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>

namespace gradstream::testing {

// GS_FUZZ_PLANTED in the environment: the target plants a fault, and must find it. It then ends with status 1, not
// with a crash.
inline bool is_fault_planted() {
  static const bool is_planted = std::getenv("GS_FUZZ_PLANTED") != nullptr;
  return is_planted;
}

[[noreturn]] inline void fuzz_failed(const char* what, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, what);
  if (is_fault_planted()) {
    std::_Exit(1);
  }
  std::abort();
}

#define FUZZ_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::gradstream::testing::fuzz_failed(#condition, __FILE__, __LINE__))

// Zeros without end once the input is used up: a target stops at empty().
class FuzzInput {
 public:
  FuzzInput(const uint8_t* data, size_t size) : rest_(data, size) {}
  bool empty() const { return rest_.empty(); }
  uint8_t byte() {
    if (rest_.empty()) {
      return 0;
    }
    const uint8_t value = rest_[0];
    rest_ = rest_.subspan(1);
    return value;
  }
  uint32_t word() {
    uint32_t value = 0;
    for (int i = 0; i < 4; ++i) {
      value |= static_cast<uint32_t>(byte()) << (8 * i);
    }
    return value;
  }
  // 0 .. count - 1.
  uint32_t below(uint32_t count) { return byte() % count; }
  std::span<const uint8_t> bytes(size_t most) {
    const size_t size = most < rest_.size() ? most : rest_.size();
    const std::span<const uint8_t> out = rest_.first(size);
    rest_ = rest_.subspan(size);
    return out;
  }
  // A number near an edge, near `value`, or any.
  uint32_t number_near(uint32_t value) {
    static constexpr std::array<uint32_t, 10> kEdges = {0, 1, 2, 31, 32, 33, 255, 65535, 0x7fffffff, 0xffffffff};
    const uint8_t choice = byte();
    if (choice < kEdges.size()) {
      return kEdges[choice];
    }
    if (choice < 128) {
      return value + choice - 64;
    }
    return choice < 192 ? value ^ (1U << (choice % 32)) : word();
  }

 private:
  std::span<const uint8_t> rest_;
};

}  // namespace gradstream::testing

#endif  // GRADSTREAM_TESTS_FUZZ_FUZZ_INPUT_H_
