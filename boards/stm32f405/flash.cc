// The two pages of the client's log on an STM32F405: sectors 10 and 11 of its flash, 128 KB each, by the controller of
// RM0090 chapter 3. Reviewed against the manual; not run on silicon.
//
// The processor stands still while it would fetch from a flash that is being programmed or erased: some 16 us a word
// and 1 to 2 s a sector (data sheet, table 40). In that time the link's bytes are lost and TLS begins anew; the
// watchdog is slower than it (machine.h).
#include "boards/flash.h"

#include <cstring>

#include "boards/cortex_m/cortex_m.h"

namespace gradstream {
namespace {

constexpr uint32_t kPageSize = 128 * 1024;
constexpr uint32_t kFirstSector = 10;
constexpr uint32_t kIdentitySector = 5;
constexpr uint32_t kFirstAddress = 0x080C0000;

volatile uint32_t& key() { return register_at(0x40023C04); }
volatile uint32_t& status() { return register_at(0x40023C0C); }
volatile uint32_t& control() { return register_at(0x40023C10); }
volatile uint32_t& power_control() { return register_at(0x40007000); }
volatile uint32_t& power_status() { return register_at(0x40007004); }
volatile uint32_t& apb1_enable() { return register_at(0x40023840); }
volatile uint32_t& flash_access() { return register_at(0x40023C00); }

constexpr uint32_t kBusy = 1U << 16;
constexpr uint32_t kErrors = 0xF0;  // sequence, parallelism, alignment, write protection
constexpr uint32_t kLock = 1U << 31, kStart = 1U << 16, kWords = 2U << 8, kSectorErase = 1U << 1, kProgram = 1U;
constexpr uint32_t kDataCache = 1U << 10, kDataCacheReset = 1U << 12;
// At 168 MHz a turn takes at least 5 cycles: 6 s or more. A sector takes 4 s at most with words (data sheet, table 40).
constexpr uint32_t kWaitTurnCountMax = 200000000;

Status wait() {
  for (uint32_t turn = 0; turn < kWaitTurnCountMax; ++turn) {
    if ((status() & kBusy) == 0) {
      return (status() & kErrors) == 0 ? Status::kOk : Status::kClosed;
    }
  }
  return Status::kClosed;
}

void unlock() {
  if ((control() & kLock) != 0) {
    key() = 0x45670123;
    key() = 0xCDEF89AB;
  }
  status() = kErrors;  // written to clear
}

// The data cache may hold what stood there before (RM0090 3.5.3).
void lock() {
  control() = kLock;
  const uint32_t access = flash_access();
  if ((access & kDataCache) != 0) {
    flash_access() = access & ~kDataCache;
    flash_access() = (access & ~kDataCache) | kDataCacheReset;
    flash_access() = access;
  }
}

uint32_t page_size() { return kPageSize; }

void read(uint32_t page, uint32_t offset, uint8_t* out, uint32_t size) {
  std::memcpy(out, reinterpret_cast<const uint8_t*>(kFirstAddress + page * kPageSize + offset), size);
}

Status program(uint32_t page, uint32_t offset, const uint8_t* bytes, uint32_t size) {
  unlock();
  control() = kWords | kProgram;
  Status result = Status::kOk;
  for (uint32_t done = 0; done < size && result == Status::kOk; done += 4) {
    uint32_t word = 0;
    std::memcpy(&word, bytes + done, 4);
    register_at(kFirstAddress + page * kPageSize + offset + done) = word;
    asm volatile("dsb" ::: "memory");
    result = wait();
  }
  lock();
  return result;
}

Status erase_sector(uint32_t sector) {
  unlock();
  control() = kWords | kSectorErase | sector << 3;
  control() = control() | kStart;
  asm volatile("dsb" ::: "memory");
  const Status result = wait();
  lock();
  return result;
}

Status erase(uint32_t page) { return erase_sector(kFirstSector + page); }

// Words need 2.7 V (RM0090 3.6.2); the voltage detector's level 6 is 2.8 V rising, 2.7 V falling (data sheet, 5.3.5).
bool is_power_good() {
  constexpr uint32_t kPowerClock = 1U << 28, kDetect = 1U << 4, kLevel6 = 6U << 5, kLevelMask = 7U << 5, kLow = 1U << 2;
  if ((power_control() & kDetect) == 0) {
    apb1_enable() = apb1_enable() | kPowerClock;
    power_control() = (power_control() & ~kLevelMask) | kLevel6 | kDetect;
  }
  return (power_status() & kLow) == 0;
}

constexpr FlashOps kOps = {page_size, read, program, erase, is_power_good};

}  // namespace

const FlashOps* board_flash() { return &kOps; }

Status erase_identity() { return erase_sector(kIdentitySector); }

}  // namespace gradstream
