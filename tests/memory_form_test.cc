// The forms of the correction with the product's solver, rule and replica: who takes part, how much each does and how
// late decide where `none` and `local` end, and not where `memory` does. The double build has the exact rows; the float
// build the long run.
#include <cmath>
#include <cstdio>
#include <deque>
#include <memory>
#include <numeric>

#include <gtest/gtest.h>

#include "server/aggregator.h"
#include "server/straggler.h"
#include "tests/training_support.h"

namespace gradstream {
namespace {

constexpr bool kIsDouble = sizeof(Real) == sizeof(double);
constexpr Shape kShape = {8, 2};
constexpr uint32_t kDeviceCount = 6;
constexpr uint32_t kSampleCount = 20;
constexpr uint32_t kSteps = 5;
constexpr uint32_t kDirections = 8;
constexpr Encoding kEncoding = kIsDouble ? Encoding::kF64 : Encoding::kF32;

// k-PCA on devices with a strong direction of their own each.
struct Data {
  explicit Data(double size) : covariance(64) {
    for (uint32_t i = 0; i < kDeviceCount; ++i) {
      std::vector<Real> rows = random_values(kSampleCount * 8, 11, i);
      for (size_t e = 0; e < rows.size(); ++e) {
        rows[e] *= static_cast<Real>(size * (e % 8 == i ? 1.5 : e % 8 < 3 ? 0.8 : 0.4));
      }
      for (size_t row = 0; row < kSampleCount; ++row) {
        for (size_t c = 0; c < 64; ++c) {
          covariance[c] += static_cast<double>(rows[8 * row + c / 8]) * static_cast<double>(rows[8 * row + c % 8]) /
                           kSampleCount / kDeviceCount;
        }
      }
      devices.push_back(std::make_unique<TestSamples>(kSampleCount, 8, std::move(rows)));
    }
  }
  double loss(const std::vector<double>& x) const {
    double sum = 0;
    for (size_t a = 0; a < 8; ++a) {
      for (size_t b = 0; b < 8; ++b) {
        sum -= covariance[8 * a + b] * (x[2 * a] * x[2 * b] + x[2 * a + 1] * x[2 * b + 1]) / 2;
      }
    }
    return sum;
  }
  // The optimum by orthogonal iteration.
  double optimum() const {
    std::vector<double> x(16);
    for (size_t e = 0; e < 16; ++e) {
      x[e] = std::cos(static_cast<double>(e * e));
    }
    for (int i = 0; i < 4000; ++i) {
      std::vector<double> y(16);
      for (size_t e = 0; e < 128; ++e) {
        y[e / 8] += covariance[8 * (e / 16) + e % 8] * x[2 * (e % 8) + e / 8 % 2];
      }
      x = orthonormal(y);
    }
    return loss(x);
  }
  // Gram-Schmidt; the loss does not depend on the basis.
  static std::vector<double> orthonormal(std::vector<double> y) {
    for (size_t c = 0; c < 2; ++c) {
      double inner = 0;
      for (size_t r = 0; r < 8 && c == 1; ++r) {
        inner += y[2 * r] * y[2 * r + 1];
      }
      double norm = 0;
      for (size_t r = 0; r < 8; ++r) {
        y[2 * r + c] -= inner * y[2 * r] * (c == 1 ? 1 : 0);
        norm += y[2 * r + c] * y[2 * r + c];
      }
      for (size_t r = 0; r < 8; ++r) {
        y[2 * r + c] /= std::sqrt(norm);
      }
    }
    return y;
  }
  std::vector<std::unique_ptr<TestSamples>> devices;
  std::vector<double> covariance;
};

// Who answers a version, with how many steps and how late.
struct Schedule {
  uint32_t round_count = 600;
  uint32_t answer_count = kDeviceCount;  // drawn without replacement, where no probabilities are given
  std::vector<double> probabilities;     // of each device
  bool is_partial = false;               // k_i drawn from 1..5
  uint32_t late_max = 0;                 // versions, drawn; weighed by 1/sqrt(1 + s)
};

class FormRun {
 public:
  FormRun(const Data& data, CorrectionForm form, EstimatorId estimator, double step_size,
          uint32_t direction_count = kDirections, uint32_t scale_log2 = 26)
      : data_(data), memory_(size_t{1} << 20), models_(8) {
    p_.manifold = ManifoldId::kStiefel;
    p_.shape = kShape;
    p_.estimator = estimator;
    p_.correction_form = form;
    p_.fold_weight = FoldWeight::kUniform;
    p_.direction_count = direction_count;
    p_.smoothing = 1e-3F;
    p_.local_step_count = kSteps;
    p_.step_size = static_cast<float>(step_size);
    p_.device_count = kDeviceCount;
    p_.staleness_max = 8;
    p_.fold_scale_log2 = scale_log2;
    EXPECT_EQ(replica_.prepare(kStiefelOps, kShape, memory_.arena, p_.has_mean()), Status::kOk);
    rule_ = make_aggregator({&p_, &replica_, &models_, &memory_.arena, nullptr});
    std::vector<Real> point(kShape.size());
    EXPECT_EQ(kStiefelOps.random_point(kShape, {1, RandomDomain::kInitialPoint, 0, 0, 0}, point.data(), memory_.arena),
              Status::kOk);
    follow(first_record(p_, kDeviceCount, point.data()));
  }
  Replica& replica() { return replica_; }

  // Work on the open version; may be folded versions later.
  struct Work {
    uint32_t device;
    uint32_t base;
    uint32_t steps;
    std::vector<Real> values;
  };
  Work work(uint32_t device, uint32_t steps) {
    Task task = stiefel_task(kShape);
    task.version = replica_.version();
    task.estimator.id = p_.estimator;
    task.estimator.batch_mode = BatchMode::kAll;
    task.estimator.smoothing = static_cast<Real>(p_.smoothing);
    task.estimator.directions.direction_count = p_.direction_count;
    task.seed = p_.seed;
    task.client_index = device;
    task.local_step_count = kSteps;
    task.step_size = static_cast<Real>(p_.step_size);
    task.use_correction = true;
    task.encoding = kEncoding;
    const std::vector<Real> c = correction(device);
    const Problem problems[] = {{&kKpcaOps, &data_.devices[device]->source}};
    const size_t mark = memory_.arena.mark();
    SolverRun run;
    EXPECT_EQ(begin_solver(registry_of(problems), task, replica_.model(), c.empty() ? nullptr : c.data(), &run,
                           memory_.arena),
              Status::kOk);
    for (uint32_t k = 0; k < steps; ++k) {
      EXPECT_EQ(run.ops->step(run, memory_.arena), Status::kOk);
    }
    GradientStream stream;
    EXPECT_EQ(run.ops->finish(run, &stream), Status::kOk);
    Work out{device, replica_.version(), steps, {stream.values, stream.values + stream.value_count}};
    memory_.arena.release(mark);
    return out;
  }
  bool fold(const Work& work) {
    const uint32_t om = staleness_weight(p_, replica_.version() - work.base);
    const Status status =
        rule_->add({p_.owner_of(work.device), work.base, work.steps, static_cast<uint16_t>(om), work.values,
                    work.device});
    if (status == Status::kOk) {
      folded_.push_back(work);
    }
    return status == Status::kOk;
  }
  void close() {
    VersionRecord record;
    ASSERT_EQ(rule_->finish(&record), Status::kOk);
    follow(record);
    for (const Work& work : folded_) {
      last_[work.device] = {work, replica_.version()};
    }
    folded_.clear();
  }

  double run(const Schedule& schedule) {
    RandomStream draw({5, RandomDomain::kClientSampling, 0, 0, 0});
    std::deque<std::pair<uint32_t, Work>> waiting;
    std::vector<bool> is_busy(kDeviceCount);
    while (replica_.version() < schedule.round_count && !testing::Test::HasFatalFailure()) {
      std::vector<uint16_t> order(kDeviceCount);
      choose({5, RandomDomain::kClientSampling, replica_.version(), 1, 0}, kDeviceCount, kDeviceCount, order.data());
      for (uint32_t i = 0; i < kDeviceCount; ++i) {
        const uint32_t device = order[i];
        const bool answers = schedule.probabilities.empty() ? i < schedule.answer_count
                                                            : draw.next_uniform() < schedule.probabilities[device];
        if (!answers || is_busy[device]) {
          continue;
        }
        const uint32_t steps = schedule.is_partial ? 1 + draw.next() % kSteps : kSteps;
        const uint32_t late = schedule.late_max == 0 ? 0 : draw.next() % (schedule.late_max + 1);
        waiting.emplace_back(replica_.version() + late, work(device, steps));
        is_busy[device] = true;
      }
      uint32_t count = 0;
      for (auto& [due, work] : waiting) {
        if (due <= replica_.version()) {
          EXPECT_TRUE(fold(work));
          is_busy[work.device] = false;
          ++count;
        }
      }
      std::erase_if(waiting, [&](const auto& entry) { return entry.first <= replica_.version(); });
      if (count == 0) {
        const auto idle = std::find(is_busy.begin(), is_busy.end(), false);
        const uint32_t first = static_cast<uint32_t>(idle - is_busy.begin());
        if (first == kDeviceCount) {
          for (auto& [due, work] : waiting) {
            due = replica_.version();  // all are away: the next answer is waited for
          }
          continue;
        }
        EXPECT_TRUE(fold(work(first, kSteps)));
      }
      close();
    }
    return data_.loss(Data::orthonormal({replica_.model(), replica_.model() + kShape.size()})) - data_.optimum();
  }

 private:
  struct Last {
    Work work;
    uint32_t version = 0;  // that it went into
  };

  // c_i as a device makes it: memory h - h_i, local d - Gbar_i of the version that its last update went into.
  std::vector<Real> correction(uint32_t device) {
    const auto last = last_.find(device);
    if (last == last_.end() || p_.correction_form == CorrectionForm::kNone) {
      return {};
    }
    if (p_.correction_form == CorrectionForm::kLocal) {
      return local_[device];
    }
    EXPECT_EQ(rule_->stamp(device), last->second.work.base);
    std::vector<Real> c(kShape.size());
    replica_.fill_mean(p_.stream() == StreamKind::kScalarStream ? exact_unit(kShape, p_.fold_scale_log2)
                                                                : fixed_unit(p_.fold_scale_log2),
                       c.data());
    subtract(last->second.work, &c);
    return c;
  }
  void subtract(const Work& work, std::vector<Real>* c) {
    std::vector<uint8_t> bytes(encoded_size(kEncoding, work.values.size()));
    EXPECT_EQ(encode_values(kEncoding, work.values.size(), work.values.data(), bytes.data()), Status::kOk);
    if (p_.stream() == StreamKind::kScalarStream) {
      EXPECT_EQ(fill_correction(direction_spec(p_, work.base, p_.owner_of(work.device)), kShape, c->data(), work.steps,
                                kEncoding, bytes.data(), bytes.size(), c->data(), memory_.arena),
                Status::kOk);
    } else {
      EXPECT_EQ(subtract_values(kEncoding, c->size(), bytes.data(), bytes.size(), c->data()), Status::kOk);
    }
  }
  void follow(const VersionRecord& record) {
    ASSERT_EQ(apply_record(p_, record, replica_, memory_.arena), Status::kOk);
    ASSERT_EQ(rule_->follow(record), Status::kOk);
    for (const Work& work : folded_) {
      if (p_.correction_form == CorrectionForm::kLocal) {
        std::vector<Real>& c = local_[work.device];
        c.resize(kShape.size());
        if (replica_.has_mean()) {
          replica_.fill_mean(fixed_unit(p_.fold_scale_log2), c.data());
        } else {
          c.assign(replica_.record_sum(), replica_.record_sum() + kShape.size());
        }
        subtract(work, &c);
      }
    }
  }

  const Data& data_;
  RunParameters p_;
  TestArena memory_;
  Replica replica_;
  ModelRing models_;
  std::unique_ptr<Aggregator> rule_;
  std::vector<Work> folded_;
  std::map<uint32_t, Last> last_;
  std::map<uint32_t, std::vector<Real>> local_;
};

struct Row {
  const char* name;
  Schedule schedule;
};

std::vector<Row> rows() {
  std::vector<Row> all = {{"full", {}},
                          {"3 of 6", {}},
                          {"1 of 6", {}},
                          {"p .9 .7 .5 .3 .2 .1", {}},
                          {"3 of 6, k 1..5", {}},
                          {"3 of 6, k 1..5, late <= 4", {}}};
  all[1].schedule.answer_count = 3;
  all[2].schedule.answer_count = 1;
  all[2].schedule.round_count = 2400;
  all[3].schedule.probabilities = {.9, .7, .5, .3, .2, .1};
  all[3].schedule.round_count = 2400;
  all[4].schedule.answer_count = 3;
  all[4].schedule.is_partial = true;
  all[4].schedule.round_count = 1200;
  all[5].schedule = all[4].schedule;
  all[5].schedule.late_max = 4;
  return all;
}

// First order: the gap at the end of each row. Prints the table of docs/algorithms.md.
TEST(MemoryForm, OnlyTheMemoryHasTheRightFixedPoint) {
  if (!kIsDouble) {
    GTEST_SKIP() << "gaps below 1e-12 need the double build";
  }
  const Data data(1);
  std::printf("%-28s %10s %10s %10s %10s\n", "who takes part", "none", "local", "memory", "unbiased");
  for (const Row& row : rows()) {
    double gaps[4] = {};
    for (int form = 0; form < 4; ++form) {
      FormRun run(data, static_cast<CorrectionForm>(form), EstimatorId::kAnalyticGradient, 0.02);
      gaps[form] = run.run(row.schedule);
    }
    std::printf("%-28s %10.1e %10.1e %10.1e %10.1e\n", row.name, gaps[0], gaps[1], gaps[2], gaps[3]);
    EXPECT_LT(std::fabs(gaps[2]), 1e-12) << row.name;
    EXPECT_LT(std::fabs(gaps[3]), 1e-12) << row.name;
    EXPECT_GT(gaps[0], 1e-6) << row.name;
  }
}

// Zeroth order: noise hides the fixed points. Prints the second table of docs/algorithms.md; nothing is better by more
// than a factor with part of the fleet.
TEST(MemoryForm, NoisyEstimatesHideTheFixedPoints) {
  if (!kIsDouble) {
    GTEST_SKIP() << "the double build has the table";
  }
  const Data data(1);
  std::printf("%-28s %10s %10s %10s %10s\n", "zeroth order, m = 8", "none", "local", "memory", "unbiased");
  for (const size_t index : {size_t{0}, size_t{1}, size_t{3}}) {
    Row row = rows()[index];
    row.schedule.round_count = 600;
    double gaps[4] = {};
    for (int form = 0; form < 4; ++form) {
      FormRun run(data, static_cast<CorrectionForm>(form), EstimatorId::kProjectionOneSided, 0.02);
      gaps[form] = run.run(row.schedule);
    }
    std::printf("%-28s %10.1e %10.1e %10.1e %10.1e\n", row.name, gaps[0], gaps[1], gaps[2], gaps[3]);
    EXPECT_LT(gaps[2], gaps[0] * 4);
    EXPECT_LT(gaps[2], 0.1);
  }
}

// With everyone, on time and with equal K it is the published algorithm, here in plain double as printed.
TEST(MemoryForm, IsThePublishedAlgorithmWithFullParticipation) {
  if (!kIsDouble) {
    GTEST_SKIP() << "1e-9 needs the double build";
  }
  const Data data(0.05);
  const double eta = 0.25;  // the record's step is a float: this one is exact in it
  constexpr uint32_t kFew = 2;  // a record stays shorter than the model, which would travel in f32
  FormRun run(data, CorrectionForm::kMemory, EstimatorId::kProjectionOneSided, eta, kFew, 40);
  const Real step = static_cast<float>(eta);
  TestArena memory;
  std::vector<std::vector<Real>> c(kDeviceCount, std::vector<Real>(kShape.size()));
  std::vector<Real> x(run.replica().model(), run.replica().model() + kShape.size());
  EstimatorParameters parameters;
  parameters.batch_mode = BatchMode::kAll;
  parameters.smoothing = static_cast<Real>(1e-3F);
  parameters.directions = {DirectionKind::kSign, true, 1, 0, 0, kFew};
  for (uint32_t round = 0; round < 60; ++round) {
    for (uint32_t device = 0; device < kDeviceCount; ++device) {
      ASSERT_TRUE(run.fold(run.work(device, kSteps)));
    }
    ASSERT_NO_FATAL_FAILURE(run.close());
    // As printed: z and zhat, the mean of zhat, d by the difference.
    std::vector<Real> mean(kShape.size());
    std::vector<std::vector<Real>> gbar(kDeviceCount, std::vector<Real>(kShape.size()));
    for (uint32_t device = 0; device < kDeviceCount; ++device) {
      parameters.directions.base_version = round;
      std::vector<Real> zhat = x;
      std::vector<Real> z = x;
      std::vector<Real> g(kShape.size());
      std::vector<Real> scalars(kFew);
      for (uint32_t t = 0; t < kSteps; ++t) {
        EstimateInput input;
        input.manifold = &kStiefelOps;
        input.shape = kShape;
        input.problem = {&kKpcaOps, &data.devices[device]->source};
        input.parameters = &parameters;
        input.step = t;
        input.z = z.data();
        ASSERT_EQ(kProjectionOneSidedOps.estimate(input, scalars.data(), g.data(), nullptr, memory.arena), Status::kOk);
        for (size_t e = 0; e < g.size(); ++e) {
          gbar[device][e] += g[e] / kSteps;
          zhat[e] -= step * (g[e] + c[device][e]);
        }
        ASSERT_EQ(kStiefelOps.project_point(kShape, zhat.data(), z.data(), memory.arena), Status::kOk);
      }
      add_scaled(zhat.size(), Real{1} / kDeviceCount, zhat.data(), mean.data());
    }
    for (uint32_t device = 0; device < kDeviceCount; ++device) {
      for (size_t e = 0; e < mean.size(); ++e) {
        c[device][e] = (x[e] - mean[e]) / (step * kSteps) - gbar[device][e];
      }
    }
    ASSERT_EQ(kStiefelOps.project_point(kShape, mean.data(), x.data(), memory.arena), Status::kOk);
    for (size_t e = 0; e < x.size(); ++e) {
      ASSERT_NEAR(run.replica().model()[e], x[e], 1e-9) << "round " << round;
    }
  }
}

// The mean is never computed by a difference of models, whose rounding would be integrated.
TEST(MemoryForm, TwelveThousandRoundsInFloatHaveNoDrift) {
  if (kIsDouble) {
    GTEST_SKIP() << "float only";
  }
  const Data data(1);
  FormRun run(data, CorrectionForm::kMemory, EstimatorId::kAnalyticGradient, 5e-4);
  Schedule schedule;
  schedule.round_count = 12000;
  const double gap = run.run(schedule);
  std::printf("float, eta = 5e-4, 12,000 rounds: gap %.1e\n", gap);
  EXPECT_LT(std::fabs(gap), 1e-6);
}

}  // namespace
}  // namespace gradstream
