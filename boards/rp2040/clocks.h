// What the RP2040's source of random numbers must know of its clocks.
#ifndef GRADSTREAM_BOARDS_RP2040_CLOCKS_H_
#define GRADSTREAM_BOARDS_RP2040_CLOCKS_H_

namespace gradstream {

// Whether the processor runs from the crystal: samples of the ring oscillator taken by itself are not random.
bool rp2040_has_crystal_clock();

}  // namespace gradstream

#endif  // GRADSTREAM_BOARDS_RP2040_CLOCKS_H_
