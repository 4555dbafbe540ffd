// What an operator asks of a run that is there: the verbs `run pause`, `resume` and `stop`.
#ifndef GRADSTREAM_SERVER_PROGRAM_RUN_WISH_H_
#define GRADSTREAM_SERVER_PROGRAM_RUN_WISH_H_

#include <cstdint>

namespace gradstream {

enum class RunWish : uint8_t { kPause, kResume, kStop };

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_PROGRAM_RUN_WISH_H_
