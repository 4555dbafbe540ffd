// A range is said in the line of its key alone, and a refusal says it again for people.
#include "server/run/check_range.h"

#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "server/run/check_parameters.h"
#include "server/run/run_core.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

TEST(CheckRange, ANumberOutOfItsRangeIsToldTheRange) {
  RunParameters p = scalar_parameters();
  p.trigger->report_deadline_ms = 0;
  EXPECT_EQ(check_parameters(p).sentence, "report_deadline_ms: needs at least 1 ms; it is 0");
  p.local->batch_size = 0;
  EXPECT_EQ(check_parameters(p).sentence, "batch_size: needs 1 to 4096 samples (batch_mode common); it is 0");
  p.local->smoothing = 0;
  EXPECT_EQ(
      check_parameters(p).sentence,
      "smoothing: needs a number above 0 (estimators with directions); it is 0; about 1e-2 suits data of order 1");
  p = scalar_parameters();
  p.name = std::string(64, 'a');
  EXPECT_EQ(check_parameters(p).sentence, "name: needs 1 to 63 characters; it has 64");
  EXPECT_FALSE(check_range(p, "batch_size"));
}

// Where no check of the group asks for it, too.
TEST(CheckRange, EveryRunKeepsARange) {
  RunParameters p = tangent_parameters();
  EXPECT_EQ(check_ranges(p).sentence, "");
  p.wire->log_size_max = UINT32_MAX;
  EXPECT_EQ(check_ranges(p).sentence, "log_size_max: needs 0 to 268435456 bytes; it is 4294967295");
  p = tangent_parameters();
  p.steps->server_step = std::numeric_limits<Real>::quiet_NaN();
  EXPECT_EQ(check_ranges(p).sentence, "server_step: needs a number above 0; it is nan");
  p = tangent_parameters();
  p.delay->delay_switch_at = std::numeric_limits<Real>::infinity();
  EXPECT_EQ(check_ranges(p).sentence, "delay_switch_at: needs a finite number; it is inf");
}

// The one column of a product is longer than a matrix may be.
TEST(CheckRange, AProductHasItsOwnRows) {
  RunParameters p = tangent_parameters();
  p.model->shape.rows = kDimensionMax + 1;
  EXPECT_TRUE(check_ranges(p));
  p.model->manifold = ManifoldId::kProduct;
  EXPECT_EQ(check_ranges(p).sentence, "");
}

}  // namespace
}  // namespace gradstream
