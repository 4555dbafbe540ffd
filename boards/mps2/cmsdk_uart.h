// The UART of Arm's system design kit, which the MPS2 and MPS3 boards have (ARM DDI 0479, APB UART).
#ifndef GRADSTREAM_BOARDS_MPS2_CMSDK_UART_H_
#define GRADSTREAM_BOARDS_MPS2_CMSDK_UART_H_

#include <cstdint>

namespace gradstream {

struct CmsdkUart {
  volatile uint32_t data;
  volatile uint32_t state;
  volatile uint32_t control;
  volatile uint32_t interrupt;  // write 1 to clear
  volatile uint32_t baud_divisor;

  static constexpr uint32_t kTransmitFull = 1, kReceiveFull = 2;            // state
  static constexpr uint32_t kTransmitEnable = 1, kReceiveEnable = 2;        // control
  static constexpr uint32_t kTransmitInterrupt = 4, kReceiveInterrupt = 8;  // control
  static constexpr uint32_t kInterruptFlags = 3;

  bool has_room() const { return (state & kTransmitFull) == 0; }
  bool has_byte() const { return (state & kReceiveFull) != 0; }
  void put(uint8_t byte) { data = byte; }
  bool get(uint8_t* byte) {
    if (!has_byte()) {
      return false;
    }
    *byte = static_cast<uint8_t>(data);
    return true;
  }
  void start(uint32_t divisor, uint32_t flags) {
    baud_divisor = divisor;
    control = flags;
  }
  // The transmitter's interrupt comes once, when a byte has left, so it stays on.
  void want_receive(bool wanted) { control = wanted ? control | kReceiveInterrupt : control & ~kReceiveInterrupt; }
};

}  // namespace gradstream

#endif  // GRADSTREAM_BOARDS_MPS2_CMSDK_UART_H_
