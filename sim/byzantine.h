// A device that speaks the protocol and lies in every field: counts, digests, versions, rounds, numbers of tasks, clip
// scales, evaluations, nonces of runs. And it says what it said before, of another task, session or run.
//
//   client --DeviceMessage--> [changed here] --> coordinator
//
// Other than those of sim/lies.h, its lies differ from schedule to schedule: nothing says which model is right, but
// that every version follows from the journal, that each task has one verdict, and that the honest devices arrive.
#ifndef GRADSTREAM_SIM_BYZANTINE_H_
#define GRADSTREAM_SIM_BYZANTINE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/wire/codec.h"
#include "sim/faults.h"

namespace gradstream {

class Byzantine {
 public:
  // The lies are a function of seed, schedule and what it is asked to change.
  Byzantine(uint32_t seed, uint32_t schedule) : dice_(seed ^ 0xB12A, schedule) {}
  // Changes most messages: in place of one comes an earlier one of the device, or some fields say something else. What
  // the codec would not take stays as it was: such a frame ends the session, which other tests have.
  void tell(DeviceMessage* message);
  uint64_t field_count() const { return field_count_; }    // that said something else and passed the codec
  uint64_t repeat_count() const { return repeat_count_; }  // messages that were earlier ones

 private:
  void remember(const DeviceMessage& message);

  Dice dice_;
  std::vector<DeviceMessage> past_;
  uint64_t field_count_ = 0;
  uint64_t repeat_count_ = 0;
};

// Gives every scalar of the message that has one, with odds of one in `odds`, another value: a near one, one at an end
// of its range, or any. Fields of messages in it too. Returns how many it changed. The codec may refuse the message.
size_t change_fields(uint32_t odds, Dice* dice, DeviceMessage* message);

}  // namespace gradstream

#endif  // GRADSTREAM_SIM_BYZANTINE_H_
