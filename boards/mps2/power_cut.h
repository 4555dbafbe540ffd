// Power that goes at a planned moment, in the emulator's image of the MPS2 boards.
#ifndef GRADSTREAM_BOARDS_MPS2_POWER_CUT_H_
#define GRADSTREAM_BOARDS_MPS2_POWER_CUT_H_

#include <cstdint>

namespace gradstream {

// Timer 0, which the client does not use; its interrupt stands above all others.
inline constexpr uint32_t kPowerCutIrq = 8;
void on_power_cut();
// With the word cut-tick=N, N ticks of 40 ns: 40 instructions each under -icount shift=0.
void plan_power_cut();

}  // namespace gradstream

#endif  // GRADSTREAM_BOARDS_MPS2_POWER_CUT_H_
