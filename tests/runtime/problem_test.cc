#include "runtime/problem/problem.h"

#include <cstring>
#include <iterator>
#include <limits>
#include <set>
#include <string>

#include <gtest/gtest.h>

namespace gradstream {
namespace {

TEST(Problem, IsFoundByItsWholeName) {
  ProblemOps other = kKpcaOps;
  other.name = "kpca2";
  const Problem linked[] = {{&other, nullptr}, {&kKpcaOps, nullptr}};
  EXPECT_EQ(find_problem(linked, "kpca"), &linked[1]);
  EXPECT_EQ(find_problem(linked, "kpca2"), &linked[0]);
  EXPECT_EQ(find_problem(linked, "kpc"), nullptr);
  EXPECT_EQ(find_problem(linked, ""), nullptr);
  EXPECT_EQ(find_problem({}, "kpca"), nullptr);
}

TEST(Problem, NamesFitTheWireAndDiffer) {
  const ProblemOps* all[] = {&kKpcaOps,         &kBrockettOps,   &kSpdMeanOps,  &kMultitaskOps,  &kHyperbolicMeanOps,
                             &kLeastSquaresOps, &kCompletionOps, &kLogisticOps, &kPerceptronOps, &kLenetOps};
  std::set<std::string> names;
  for (const ProblemOps* ops : all) {
    EXPECT_LE(std::strlen(ops->name), kProblemNameSizeMax);
    names.insert(ops->name);
  }
  EXPECT_EQ(names.size(), std::size(all));
  for (const ProblemOps* ops : {&kMultitaskOps, &kCompletionOps, &kLogisticOps, &kPerceptronOps, &kLenetOps}) {
    EXPECT_NE(ops->find_fault, nullptr) << ops->name << " looks at its labels before the first task";
  }
}

// An application's own problem that looks at its samples, and one that does not.
struct Readings {
  static constexpr const char* kName = "readings";
  uint32_t sample_count() const { return 2; }
  Status check_shape(Shape) const { return Status::kOk; }
  Result<Real> loss(Shape, const Real*, Batch) const { return Real{0}; }
};
struct CheckedReadings : Readings {
  Status find_fault(Shape, SampleFault* out) const {
    *out = {1, -3, 0, 9, "reading"};
    return Status::kOutOfRange;
  }
};

TEST(Problem, AnOwnOneMayLookAtItsSamples) {
  static constexpr ProblemOps kPlain = make_problem_ops<Readings>();
  static constexpr ProblemOps kChecked = make_problem_ops<CheckedReadings>();
  EXPECT_EQ(kPlain.find_fault, nullptr);
  const CheckedReadings readings;
  uint64_t memory[8];
  Arena arena(memory, sizeof(memory));
  SampleFault fault;
  EXPECT_EQ(kChecked.find_fault(&readings, {1, 1}, arena, &fault), Status::kOutOfRange);
  EXPECT_STREQ(fault.what, "reading");
}

TEST(LossSum, IsTheMeanOrNotFinite) {
  LossSum sum;
  EXPECT_EQ(sum.mean().status(), Status::kNotFinite) << "nothing added";
  for (int i = 1; i <= 6; ++i) sum.add(static_cast<Real>(i));
  EXPECT_EQ(sum.mean().value(), static_cast<Real>(3.5));
  sum.add(std::numeric_limits<Real>::infinity());
  EXPECT_EQ(sum.mean().status(), Status::kNotFinite);
}

TEST(Batch, IsAListOrEverything) {
  const uint16_t indices[] = {5, 2};
  const Batch list = {indices, 2};
  const Batch all = {nullptr, 9};
  EXPECT_EQ(list.at(0), 5u);
  EXPECT_EQ(list.at(1), 2u);
  EXPECT_EQ(all.at(8), 8u);
}

}  // namespace
}  // namespace gradstream
