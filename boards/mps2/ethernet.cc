#include "boards/mps2/ethernet.h"

#include "boards/cortex_m/cortex_m.h"
#include "boards/ethernet/lan9118.h"

namespace gradstream {
namespace {

constexpr uint32_t kBase = 0x40200000;
volatile uint32_t& interrupt_enable() { return register_at(0xE000E100); }
volatile uint32_t& interrupt_disable() { return register_at(0xE000E180); }

}  // namespace

uint32_t lan9118_get(uint32_t offset) { return register_at(kBase + offset); }
void lan9118_put(uint32_t offset, uint32_t value) { register_at(kBase + offset) = value; }
void lan9118_enable_interrupt() { interrupt_enable() = 1U << kEthernetIrq; }

// Its cause stays until the main loop has seen to it.
void on_ethernet() { interrupt_disable() = 1U << kEthernetIrq; }

}  // namespace gradstream
