// NOR flash of two pages in a test: erase sets, program clears, a unit is programmed once between erases, wear is
// counted, and the power can be cut inside any call, leaving a torn word or a torn erase.
#ifndef GRADSTREAM_TESTS_SUPPORT_FAKE_FLASH_H_
#define GRADSTREAM_TESTS_SUPPORT_FAKE_FLASH_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "boards/flash.h"
#include "runtime/base/random.h"

namespace gradstream {

struct FakeFlash {
  static constexpr uint32_t kNever = UINT32_MAX;

  explicit FakeFlash(uint32_t size) : page_size(size) {
    for (std::vector<uint8_t>& page : pages) {
      page.assign(size, 0xFF);
    }
  }

  uint32_t page_size;
  std::array<std::vector<uint8_t>, kFlashPageCount> pages;
  std::array<uint32_t, kFlashPageCount> erase_counts = {};
  uint32_t calls = 0;        // program and erase
  uint32_t cut_at = kNever;  // the call in which power goes
  uint32_t tear_seed = 0;    // which bytes of that call are done, and which bits of the torn one
  bool is_off = false;       // from the cut to restart()
  bool is_power_good = true;
  uint32_t overwrites = 0;         // units programmed twice: forbidden
  uint32_t stuck_offset = kNever;  // a worn byte of page 0 that does not take a zero
  uint64_t programmed_size = 0;

  void restart() {
    is_off = false;
    cut_at = kNever;
  }

  // Applies `next` to the page's bytes [offset, offset + size) as far as power lasts.
  template <typename Next>
  Status change(uint32_t page, uint32_t offset, uint32_t size, Next next) {
    if (is_off) {
      return Status::kClosed;
    }
    const bool is_cut = calls++ == cut_at;
    RandomStream random({.seed = tear_seed, .step = calls});
    uint32_t done = size;
    if (is_cut) {
      is_off = true;
      done = tear_seed == 0 ? 0 : tear_seed == 1 ? size : random.next() % size;  // also before and after all of it
    }
    std::vector<uint8_t>& bytes = pages[page];
    for (uint32_t i = 0; i < done; ++i) {
      bytes[offset + i] = next(bytes[offset + i], i);
    }
    if (done < size) {  // of the torn byte some bits
      const uint8_t mask = static_cast<uint8_t>(random.next());
      uint8_t& torn = bytes[offset + done];
      torn = static_cast<uint8_t>((torn & ~mask) | (next(torn, done) & mask));
    }
    return is_cut ? Status::kClosed : Status::kOk;
  }

  Status program(uint32_t page, uint32_t offset, const uint8_t* from, uint32_t size) {
    overwrites += offset % kFlashUnitSize != 0 || size % kFlashUnitSize != 0 ? 1 : 0;
    const auto begin = pages[page].begin() + offset;
    overwrites += is_off || std::all_of(begin, begin + size, [](uint8_t b) { return b == 0xFF; }) ? 0 : 1;
    programmed_size += size;
    return change(page, offset, size, [&](uint8_t old, uint32_t i) {
      const bool is_stuck = page == 0 && offset + i == stuck_offset;
      return is_stuck ? old : static_cast<uint8_t>(old & from[i]);
    });
  }

  Status erase(uint32_t page) {
    ++erase_counts[page];
    return change(page, 0, page_size, [](uint8_t, uint32_t) { return uint8_t{0xFF}; });
  }

  // The one that the table below works on.
  static inline FakeFlash* current = nullptr;
  static const FlashOps kOps;
};

// Behind the class, which is complete here: clang wants that of what a lambda reaches into.
inline constexpr FlashOps FakeFlash::kOps = {
    [] { return current->page_size; },
    [](uint32_t page, uint32_t offset, uint8_t* out, uint32_t size) {
      std::copy_n(current->pages[page].begin() + offset, size, out);
    },
    [](uint32_t page, uint32_t offset, const uint8_t* bytes, uint32_t size) {
      return current->program(page, offset, bytes, size);
    },
    [](uint32_t page) { return current->erase(page); },
    [] { return current->is_power_good; },
};

}  // namespace gradstream

#endif  // GRADSTREAM_TESTS_SUPPORT_FAKE_FLASH_H_
