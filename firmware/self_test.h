// The self-test of a board: what the chip computes, how long that takes, and what its flash and its random numbers are
// worth, as a report on the console (docs/how-to/report.md). ./run report check accepts or refuses it.
//
// It needs no server, no identity and no samples. It erases the pages of the client's state.
#ifndef GRADSTREAM_FIRMWARE_SELF_TEST_H_
#define GRADSTREAM_FIRMWARE_SELF_TEST_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "boards/flash.h"
#include "boards/self_test.h"
#include "firmware/digest_parts.h"
#include "firmware/report_lines.h"

namespace gradstream {

// Of the report. Another form has other lines, and a checker that does not know it refuses the report.
inline constexpr uint32_t kReportForm = 1;

// Who is tested. Pointers must be valid during the call.
struct SelfTestBoard {
  const char* name = nullptr;     // as ./run names it
  const char* version = nullptr;  // of gradstream
  const char* sources = nullptr;  // digest of the sources of the image (tools/source_digest.py)
  bool is_emulated = false;
  std::span<const ProcessorWord> processor;
  CycleCounter cycles;
  RawEntropy entropy;
  const FlashOps* flash = nullptr;  // null: the board has no flash driver
  BoardSizes sizes;                 // stack 0: a process, whose sizes say nothing
  size_t (*stack_used)() = nullptr;
  // Called between two pieces of work, each far shorter than a watchdog's time on any board.
  void (*feed)() = nullptr;
  uint64_t (*now_ms)() = nullptr;  // a clock that runs by itself
  ReportLines::Sink log = nullptr;
};

// Memory of one test. A board has it as static memory.
struct SelfTestMemory {
  DigestWork work{nullptr};
  uint16_t counts[256];  // of values of raw bytes
};

// Lines from `report form=...` to `report end crc=...`. All of the board's pointers must be set, but for those of what
// it lacks; *memory is as new. nonce: what the reader of the report asked for, so that the report is not an old one; 0:
// nobody asked.
void run_self_test(const SelfTestBoard& board, uint32_t nonce, SelfTestMemory* memory);

}  // namespace gradstream

#endif  // GRADSTREAM_FIRMWARE_SELF_TEST_H_
