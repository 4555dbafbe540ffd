#include "boards/mps2/power_cut.h"

#include "boards/bare/semihosting.h"
#include "boards/cortex_m/cortex_m.h"

namespace gradstream {
namespace {

struct Timer {  // ARM DDI 0479, APB timer
  volatile uint32_t control, value, reload, interrupt;
};
Timer& timer() { return *reinterpret_cast<Timer*>(0x40000000); }
constexpr uint32_t kEnable = 1, kInterrupt = 8;

}  // namespace

void on_power_cut() { semihosting::leave(semihosting::kExitPowerCut); }

void plan_power_cut() {
  const uint32_t ticks = semihosting::number("cut-tick=");
  if (ticks == 0) {
    return;
  }
  for (uint32_t irq = 0; irq < 32; irq += 4) {
    register_at(0xE000E400 + irq) = irq == kPowerCutIrq ? 0x40404000 : 0x40404040;  // priorities; 0 is the highest
  }
  timer().reload = ticks;
  timer().value = ticks;
  timer().control = kEnable | kInterrupt;
  register_at(0xE000E100) = 1U << kPowerCutIrq;
}

}  // namespace gradstream
