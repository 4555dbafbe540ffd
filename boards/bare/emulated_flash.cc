// NOR flash kept by the emulator's host in a file, with the faults of a power that goes: a call that is cut leaves a
// torn word or a torn erase. tools/emulate.py makes the file.
//
//   page 0 | page 1 | erases of page 0, erases of page 1, bytes programmed, calls (4 words)
#include <cstring>

#include "boards/bare/semihosting.h"
#include "boards/flash.h"

namespace gradstream {
namespace {

// Of the file. Reason: as large as two small sectors of an STM32F4, and a run of some rounds turns them over.
constexpr uint32_t kPageSize = 16 * 1024;
constexpr uint32_t kCountersOffset = kFlashPageCount * kPageSize;
constexpr uint32_t kChunkSize = 128;
constexpr uint32_t kIdentitySize = 1024;  // kIdentityTextSizeMax

struct Counters {
  uint32_t erases[kFlashPageCount];
  uint32_t programmed_size;
  uint32_t calls;
};

uint32_t file = semihosting::kFailed;
Counters counters = {};
uint32_t cut_call = 0;  // the call that is cut; 0: none
uint32_t noise = 0x2545F491;

void seek(uint32_t offset) {
  const uint32_t arguments[] = {file, offset};
  (void)semihosting::call(semihosting::kSeek, arguments);
}

void read_file(uint32_t offset, void* out, uint32_t size) {
  seek(offset);
  const uint32_t arguments[] = {file, semihosting::address(out), size};
  (void)semihosting::call(semihosting::kRead, arguments);
}

void write_file(uint32_t offset, const void* bytes, uint32_t size) {
  seek(offset);
  const uint32_t arguments[] = {file, semihosting::address(bytes), size};
  (void)semihosting::call(semihosting::kWrite, arguments);
}

uint32_t next_noise() {
  noise ^= noise << 13;
  noise ^= noise >> 17;
  noise ^= noise << 5;
  return noise;
}

// In two parts with a torn byte between, so that power can go amid; `cut`: it does.
void change(uint32_t offset, uint8_t* old, const uint8_t* next, uint32_t size, bool cut) {
  const uint32_t whole = next_noise() % size;
  const uint8_t mask = static_cast<uint8_t>(next_noise());
  const uint8_t target = next[whole];
  for (uint32_t i = 0; i < whole; ++i) {
    old[i] = next[i];
  }
  old[whole] = static_cast<uint8_t>((old[whole] & ~mask) | (target & mask));
  write_file(offset, old, whole + 1);
  if (cut) {
    semihosting::leave(semihosting::kExitPowerCut);
  }
  old[whole] = target;
  for (uint32_t i = whole + 1; i < size; ++i) {
    old[i] = next[i];
  }
  write_file(offset + whole, old + whole, size - whole);
}

// Counts the call; true: it is the one to cut.
bool begin_call() {
  ++counters.calls;
  write_file(kCountersOffset, &counters, sizeof(counters));
  return counters.calls == cut_call;
}

uint32_t page_size() { return kPageSize; }

void read(uint32_t page, uint32_t offset, uint8_t* out, uint32_t size) {
  read_file(page * kPageSize + offset, out, size);
}

Status program(uint32_t page, uint32_t offset, const uint8_t* bytes, uint32_t size) {
  counters.programmed_size += size;
  const bool cut = begin_call();
  uint8_t old[kChunkSize];
  uint8_t next[kChunkSize];
  for (uint32_t done = 0; done < size; done += kChunkSize) {
    const uint32_t count = size - done < kChunkSize ? size - done : kChunkSize;
    read(page, offset + done, old, count);
    for (uint32_t i = 0; i < count; ++i) {
      next[i] = static_cast<uint8_t>(old[i] & bytes[done + i]);
    }
    change(page * kPageSize + offset + done, old, next, count, cut);
  }
  return Status::kOk;
}

Status erase(uint32_t page) {
  ++counters.erases[page];
  const bool cut = begin_call();
  const uint32_t cut_at = next_noise() % kPageSize / kChunkSize * kChunkSize;
  uint8_t old[kChunkSize];
  uint8_t next[kChunkSize];
  for (uint32_t offset = 0; offset < kPageSize; offset += kChunkSize) {
    read(page, offset, old, kChunkSize);
    for (uint8_t& byte : next) {
      byte = 0xFF;
    }
    change(page * kPageSize + offset, old, next, kChunkSize, cut && offset == cut_at);
  }
  return Status::kOk;
}

bool is_power_good() { return true; }

constexpr FlashOps kOps = {page_size, read, program, erase, is_power_good};

}  // namespace

Status erase_identity() {
  size_t size = 0;
  char path[320] = {};  // QEMU wants the name's end
  const char* word = semihosting::word("identity=", &size);
  if (word == nullptr) {
    return Status::kClosed;
  }
  std::memcpy(path, word, size);
  const uint32_t arguments[] = {semihosting::address(path), semihosting::kUpdateBinary, size};
  const uint32_t opened = semihosting::call(semihosting::kOpen, arguments);
  if (opened == semihosting::kFailed) {
    return Status::kClosed;
  }
  file = opened;
  uint8_t erased[kChunkSize];
  for (uint8_t& byte : erased) {
    byte = 0xFF;
  }
  for (uint32_t offset = 0; offset < kIdentitySize; offset += kChunkSize) {
    write_file(offset, erased, kChunkSize);
  }
  semihosting::leave(semihosting::kExitIdentityWiped);
}

const FlashOps* board_flash() {
  size_t size = 0;
  const char* path = semihosting::word("flash=", &size);
  if (path == nullptr) {
    return nullptr;
  }
  if (file == semihosting::kFailed) {
    const uint32_t arguments[] = {semihosting::address(path), semihosting::kUpdateBinary, size};
    file = semihosting::call(semihosting::kOpen, arguments);
    read_file(kCountersOffset, &counters, sizeof(counters));
    cut_call = semihosting::number("cut-call=");
    noise ^= counters.calls * 0x9E3779B9;
  }
  return file == semihosting::kFailed ? nullptr : &kOps;
}

}  // namespace gradstream
