// The value of a call of the store that a test takes for granted.
#ifndef GRADSTREAM_TESTS_SUPPORT_EXPECTED_VALUE_H_
#define GRADSTREAM_TESTS_SUPPORT_EXPECTED_VALUE_H_

#include <utility>

#include <gtest/gtest.h>

#include "server/store/expected.h"

namespace gradstream {

// Where there is none, the test fails, and goes on with an empty value.
template <typename T>
T value_of(Expected<T> expected) {
  EXPECT_EQ(expected.status(), StoreStatus::kOk);
  return expected.is_ok() ? *std::move(expected) : T();
}

}  // namespace gradstream

#endif  // GRADSTREAM_TESTS_SUPPORT_EXPECTED_VALUE_H_
