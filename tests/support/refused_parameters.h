// What the tests of a run's checks share: good runs, spoilt in one way, and the beginning of the sentence that must
// refuse each.
#ifndef GRADSTREAM_TESTS_SUPPORT_REFUSED_PARAMETERS_H_
#define GRADSTREAM_TESTS_SUPPORT_REFUSED_PARAMETERS_H_

#include <span>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/run/check_parameters.h"
#include "tests/support/server_support.h"

namespace gradstream {

struct RefusedCase {
  const char* sentence;  // its begin: the keys, and where it matters what is said of them
  void (*spoil)(RunParameters*);
};

inline void expect_refused(const RunParameters& good, std::span<const RefusedCase> cases) {
  GS_ASSERT(!check_parameters(good));
  for (const RefusedCase& spoilt : cases) {
    RunParameters p = good;
    spoilt.spoil(&p);
    EXPECT_THAT(check_parameters(p).sentence, testing::StartsWith(spoilt.sentence));
  }
}

}  // namespace gradstream

#endif  // GRADSTREAM_TESTS_SUPPORT_REFUSED_PARAMETERS_H_
