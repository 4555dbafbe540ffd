#include "runtime/manifold/smooth_transport.h"

#include "runtime/base/products.h"
#include "tests/support/manifold_checker.h"

namespace gradstream {
namespace {

using testing::kEpsilon;
using Vector = std::vector<Real>;

class SmoothTransport : public ::testing::Test {
 protected:
  uint64_t memory_[256] = {};
  Arena arena_{memory_, sizeof(memory_)};
};

TEST_F(SmoothTransport, OfOneColumnIsTheSpheres) {
  const Shape shape{7, 1};
  Vector x(7), y(7), v(7), out(7), expected(7);
  Real unitary[1];
  ASSERT_EQ(kSphereOps.random_point(shape, {.seed = 1}, x.data(), arena_), Status::kOk);
  ASSERT_EQ(random_tangent(kSphereOps, shape, x.data(), {.seed = 2}, v.data(), arena_), Status::kOk);
  for (size_t i = 0; i < 7; ++i) {
    y[i] = x[i] + static_cast<Real>(0.4) * v[i];
  }
  ASSERT_EQ(kSphereOps.project_point(shape, y.data(), y.data(), arena_), Status::kOk);
  ASSERT_EQ(kSphereOps.transport(shape, x.data(), y.data(), v.data(), expected.data(), arena_), Status::kOk);
  ASSERT_EQ(smooth_transport(shape, x.data(), y.data(), v.data(), out.data(), unitary, arena_), Status::kOk);
  EXPECT_LE(distance2(7, out.data(), expected.data()), 16 * kEpsilon);
  EXPECT_NEAR(unitary[0], 1, 4 * kEpsilon);
}

TEST_F(SmoothTransport, IsContinuousWhereHouseholderJumps) {
  // A short step between points whose first diagonal entry changes sign: LAPACK's reflector turns with it.
  const Shape shape{4, 1};
  Arena arena(memory_, sizeof(memory_));
  const Real e = static_cast<Real>(1e-3), c = std::sqrt(1 - e * e);
  const Real x[4] = {e, c, 0, 0}, y[4] = {-e, c, 0, 0}, v[4] = {0, 0, 1, 0};
  Real smooth[4], jump[4];
  ASSERT_EQ(kStiefelSmoothOps.transport(shape, x, y, v, smooth, arena), Status::kOk);
  ASSERT_EQ(kStiefelHouseholderOps.transport(shape, x, y, v, jump, arena), Status::kOk);
  EXPECT_LE(distance2(4, smooth, v), 4 * e);
  const Real turned[4] = {c, -e, 0, 0};
  Real turned_smooth[4], turned_jump[4];
  ASSERT_EQ(kStiefelSmoothOps.transport(shape, x, y, turned, turned_smooth, arena), Status::kOk);
  ASSERT_EQ(kStiefelHouseholderOps.transport(shape, x, y, turned, turned_jump, arena), Status::kOk);
  EXPECT_LE(distance2(4, turned_smooth, turned), 4 * e);
  EXPECT_GT(distance2(4, turned_jump, turned) + distance2(4, jump, v), Real{1});
}

}  // namespace
}  // namespace gradstream
