// Whether the client knows losses along directions (ProblemOps::loss_along). Without, a loss beside a point is that of
// the displaced point, which has other last bits and takes more instructions.
#ifndef GRADSTREAM_RUNTIME_PROBLEM_ALONG_H_
#define GRADSTREAM_RUNTIME_PROBLEM_ALONG_H_

#include <type_traits>

#include "runtime/base/config.h"

namespace gradstream {

// The double build keeps displaced points, since it replays references.
#if defined(GS_WITHOUT_ALONG)
inline constexpr bool kKnowsLossesAlong = false;
#else
inline constexpr bool kKnowsLossesAlong = std::is_same_v<Real, float>;
#endif

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_PROBLEM_ALONG_H_
