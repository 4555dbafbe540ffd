// The two pages of the client's log on a Raspberry Pi Pico: 64 KB blocks at the end of its serial flash, by the
// routines in the chip's ROM (data sheet 2.8.3.1.3). Reviewed against the data sheet; not run on silicon.
//
// While the ROM programs or erases, nothing can be fetched from flash: the calls run from RAM, with interrupts off. An
// erase of 64 KB takes 0.15 to 2 s (W25Q16JV), in which the link's bytes are lost and TLS begins anew.
#include "boards/flash.h"

#include <cstring>

#include "boards/cortex_m/cortex_m.h"

namespace gradstream {
namespace {

constexpr uint32_t kPageSize = 64 * 1024;
constexpr uint32_t kFirstOffset = 0x1E0000;        // in the flash
constexpr uint32_t kUncachedAddress = 0x13000000;  // the same, past the cache (2.6.3.2)
constexpr uint32_t kProgramSize = 256;             // the flash's own page
constexpr uint32_t kSectorSize = 4096;
constexpr uint32_t kIdentityOffset = 0x1DF000;  // in the flash; one sector
constexpr uint8_t kBlockErase = 0xD8;
static_assert(kFlashUnitSize <= kProgramSize);

// Everything of the ROM that a change takes, looked up before the flash goes away.
struct Rom {
  void (*connect)();
  void (*leave_xip)();
  void (*erase)(uint32_t offset, size_t size, uint32_t block_size, uint8_t block_command);
  void (*program)(uint32_t offset, const uint8_t* bytes, size_t size);
  void (*flush_cache)();
  void (*enter_xip)();
};

constexpr uint32_t code(char a, char b) { return static_cast<uint32_t>(b) << 8 | static_cast<uint32_t>(a); }

// The ROM has 16-bit pointers to its table and to the function that looks up in it (2.8.3).
Rom rom() {
  using LookUp = void* (*)(const uint16_t* table, uint32_t code);
  const auto half = [](uint32_t address) {
    asm("" : "+r"(address));  // the compiler takes so low an address for a null pointer's
    return *reinterpret_cast<const uint16_t*>(address);
  };
  const LookUp look_up = reinterpret_cast<LookUp>(static_cast<uintptr_t>(half(0x18)));
  const uint16_t* table = reinterpret_cast<const uint16_t*>(static_cast<uintptr_t>(half(0x14)));
  Rom out = {};
  const auto take = [&](uint32_t name, auto* function) {
    void* const address = look_up(table, name);
    std::memcpy(function, &address, sizeof(address));
  };
  take(code('I', 'F'), &out.connect);
  take(code('E', 'X'), &out.leave_xip);
  take(code('R', 'E'), &out.erase);
  take(code('R', 'P'), &out.program);
  take(code('F', 'C'), &out.flush_cache);
  take(code('C', 'X'), &out.enter_xip);
  return out;
}

// bytes null: erase. In RAM, and calls nothing but the ROM.
__attribute__((noinline, section(".data.ram_code"))) void change(const Rom& rom, uint32_t offset, const uint8_t* bytes,
                                                                 uint32_t size) {
  rom.connect();
  rom.leave_xip();
  if (bytes == nullptr) {
    rom.erase(offset, size, kPageSize, kBlockErase);
  } else {
    rom.program(offset, bytes, size);
  }
  rom.flush_cache();
  rom.enter_xip();  // command 03h, as the second boot stage has it
}

void change_masked(uint32_t offset, const uint8_t* bytes, uint32_t size) {
  const Rom functions = rom();
  void (*volatile call)(const Rom&, uint32_t, const uint8_t*, uint32_t) = change;  // too far for a branch
  mask_interrupts();
  call(functions, offset, bytes, size);
  unmask_interrupts();
}

uint32_t page_size() { return kPageSize; }

void read(uint32_t page, uint32_t offset, uint8_t* out, uint32_t size) {
  std::memcpy(out, reinterpret_cast<const uint8_t*>(kUncachedAddress + kFirstOffset + page * kPageSize + offset), size);
}

// The flash programs pages of 256 bytes; what is 0xFF in one stays as it is.
Status program(uint32_t page, uint32_t offset, const uint8_t* bytes, uint32_t size) {
  uint8_t whole[kProgramSize];
  while (size > 0) {
    const uint32_t at = offset % kProgramSize;
    const uint32_t count = size < kProgramSize - at ? size : kProgramSize - at;
    std::memset(whole, 0xFF, sizeof(whole));
    std::memcpy(whole + at, bytes, count);
    change_masked(kFirstOffset + page * kPageSize + offset - at, whole, kProgramSize);
    offset += count;
    bytes += count;
    size -= count;
  }
  return Status::kOk;  // the ROM reports nothing; the log reads back what it wrote
}

Status erase(uint32_t page) {
  static_assert(kPageSize % kSectorSize == 0);
  change_masked(kFirstOffset + page * kPageSize, nullptr, kPageSize);
  return Status::kOk;
}

// The chip's brown-out detector resets it below 0.86 V of the core; it cannot tell the supply of the flash.
bool is_power_good() { return true; }

constexpr FlashOps kOps = {page_size, read, program, erase, is_power_good};

}  // namespace

const FlashOps* board_flash() { return &kOps; }

// The ROM erases by sectors where a block would reach beyond.
Status erase_identity() {
  change_masked(kIdentityOffset, nullptr, kSectorSize);
  return Status::kOk;
}

}  // namespace gradstream
