// The shell on a board's console: reads what was typed, and answers in lines of the log.
#ifndef GRADSTREAM_FIRMWARE_CONSOLE_H_
#define GRADSTREAM_FIRMWARE_CONSOLE_H_

#include <cstdint>

#include "firmware/line.h"
#include "firmware/shell.h"
#include "include/gradstream/device.h"
#include "runtime/base/status.h"

namespace gradstream {

// What the shell asks of the board; boards/board.h says what each does.
struct ConsolePort {
  bool (*read)(uint8_t* byte) = nullptr;  // false: nothing was typed
  Status (*check_storage)() = nullptr;
  Status (*wipe_identity)() = nullptr;
  bool (*own_command)(const char* line) = nullptr;  // null: the board has none
};

// A digest of the arithmetic that replicas share, over 32 numbers; kArithmeticDigest on a board that computes right.
uint32_t arithmetic_digest();
inline constexpr uint32_t kArithmeticDigest = 0xB9087843;

// "event=EVENT" and who the device is, which image, why it started, its server ("serial": the link's other end knows),
// the link and TLS: the start of the line that a boot logs, and the shell's answer.
ConsoleLine device_line(const char* event, const gs_status_view& status, const char* firmware_version,
                        const char* reset_cause);

class Console {
 public:
  // The texts and the table must outlive the console. gs_init() comes before.
  Console(const ConsolePort& port, const char* firmware_version, const char* reset_cause)
      : port_(port), firmware_version_(firmware_version), reset_cause_(reset_cause) {}

  // Never waits for a byte. At most one command, so that a turn of the main loop stays short: its answer is two lines
  // at most, and `test` reads a page of the flash at most.
  void poll();

 private:
  void answer(ShellCommand command) const;
  void answer_status() const;
  void answer_test() const;
  void reset_identity() const;

  const ConsolePort& port_;
  const char* firmware_version_;
  const char* reset_cause_;
  Shell shell_;
};

}  // namespace gradstream

#endif  // GRADSTREAM_FIRMWARE_CONSOLE_H_
