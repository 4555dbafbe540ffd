#include "sim/timed_fleet.h"

#include <array>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/products.h"
#include "server/run/check_parameters.h"
#include "server/run/pace_keys.h"
#include "server/run/parts.h"
#include "server/run/run_core.h"
#include "server/run/trigger_keys.h"

namespace gradstream {
namespace {

constexpr uint32_t kDeviceCount = 4;
constexpr uint32_t kDimension = 6;
constexpr uint32_t kSampleCount = 5;

// Samples of all devices, drawn once.
struct Data {
  Data() {
    RandomStream stream(RandomKey{});
    for (Real& value : values) {
      value = static_cast<Real>(stream.next_uniform() - 0.5);
    }
    for (uint32_t i = 0; i < kDeviceCount; ++i) {
      sources[i] = {values.data() + size_t{i} * kSampleCount * kDimension, kSampleCount, kDimension, read};
      problems.push_back({&kKpcaOps, &sources[i]});
    }
  }
  static Status read(const void* context, uint32_t index, Real* out) {
    std::copy_n(static_cast<const Real*>(context) + size_t{index} * kDimension, kDimension, out);
    return Status::kOk;
  }
  std::array<Real, kDeviceCount* kSampleCount* kDimension> values = {};
  std::array<SampleSource, kDeviceCount> sources = {};
  std::vector<Problem> problems;
};

RunParameters rounds() {
  RunParameters p;
  p.name = "timed";
  p.model->manifold = ManifoldId::kStiefel;
  p.model->shape = {kDimension, 2};
  p.model->problem = kKpcaOps.name;
  p.local->solver = SolverId::kGradientStream;
  p.local->estimator = EstimatorId::kAnalyticGradient;
  p.local->batch_mode = BatchMode::kAll;
  p.local->correction_form = CorrectionForm::kNone;
  p.fold->fold_weight = FoldWeight::kUniform;
  p.local->local_step_count = 2;
  p.steps->step_size = 1;
  p.trigger->round_count = 5;
  p.trigger->device_count = kDeviceCount;
  p.pace->retry_min_ms = 1;
  p.pace->retry_max_ms = 10;
  return p;
}

RunParameters no_rounds() {
  RunParameters p = rounds();
  p.trigger->buffer_size = 1;
  p.trigger->late = LatePolicy::kWeight;
  p.trigger->staleness_max = 64;
  p.delay->delay_rule = DelayRule::kAsgd;
  p.trigger->round_count = 60;
  return p;
}

std::vector<DeviceHabits> speeds() {
  std::vector<DeviceHabits> habits(kDeviceCount);
  for (uint32_t i = 0; i < kDeviceCount; ++i) {
    habits[i].step_ms = uint64_t{1000} << i;
  }
  return habits;
}

// Points in two heaps, labelled by the heap and not quite apart; the real client runs the curve's local work.
struct Heaps {
  explicit Heaps(uint16_t hidden = 4) : widths{2, hidden, 2} {
    RandomStream stream(RandomKey{});
    for (uint32_t i = 0; i < 40 * kDeviceCount; ++i) {
      const uint32_t label = i % 2;
      for (uint32_t c = 0; c < 2; ++c) {
        rows.push_back(static_cast<Real>(2 * stream.next_uniform() - 1 + (c == label ? 0.7 : 0.0)));
      }
      rows.push_back(static_cast<Real>(label));
    }
    for (uint32_t i = 0; i < kDeviceCount; ++i) {
      networks[i] = {{rows.data() + size_t{i} * 120, 40, 3, read}, widths.data(), 3};
      problems.push_back({&kPerceptronOps, &networks[i]});
    }
  }
  static Status read(const void* context, uint32_t index, Real* out) {
    std::copy_n(static_cast<const Real*>(context) + size_t{index} * 3, 3, out);
    return Status::kOk;
  }
  double loss(const Real* model, Arena& arena) const {
    double sum = 0;
    for (const Problem& problem : problems) {
      sum += kPerceptronOps.loss(problem.context, {size(), 1}, model, {nullptr, 40}, arena).value();
    }
    return sum / kDeviceCount;
  }
  uint32_t size() const { return perceptron_size(widths.data(), 3); }
  const std::array<uint16_t, 3> widths;
  std::vector<Real> rows;
  std::array<NetworkData, kDeviceCount> networks = {};
  std::vector<Problem> problems;
};

bool go_on(uint64_t, uint32_t, const Real*) { return true; }

// Of solver projection by scalars, on a product.
RunParameters product_of(const char* parts, const char* problem) {
  RunParameters p = rounds();
  p.model->manifold = ManifoldId::kProduct;
  p.model->parts = parts;
  p.model->shape = {};
  set_parts(&p);
  p.model->problem = problem;
  p.local->solver = SolverId::kProjection;
  p.local->estimator = EstimatorId::kProjectionOneSided;
  p.local->direction_count = 2;
  p.local->correction_form = CorrectionForm::kLocal;
  p.steps->step_size = static_cast<Real>(0.05);
  p.trigger->round_count = 2;
  return p;
}

TEST(TimedFleet, ARoundLastsAsLongAsItsSlowestDevice) {
  const Data data;
  TimedFleet fleet(rounds(), {}, speeds(), data.problems, {});
  std::vector<uint64_t> times;
  EXPECT_EQ(fleet.run(1'000'000,
                      [&](uint64_t now_ms, uint32_t, const Real*) {
                        times.push_back(now_ms);
                        return true;
                      }),
            "");
  ASSERT_EQ(times.size(), 6U);
  for (size_t version = 1; version < times.size(); ++version) {
    EXPECT_GE(times[version] - times[version - 1], 16'000U);  // 2 steps of 8 s
    EXPECT_LE(times[version] - times[version - 1], 16'100U);
  }
  EXPECT_GT(fleet.arena_high_water_size(), 0U);
}

TEST(TimedFleet, TheSameRunTwiceAndWithoutRoundsNobodyIsWaitedFor) {
  const Data data;
  std::vector<uint64_t> digests;
  for (int run = 0; run < 2; ++run) {
    TimedFleet fleet(no_rounds(), {}, speeds(), data.problems, {});
    EXPECT_EQ(fleet.run(1'000'000, go_on), "");
    digests.push_back(fleet.server().model().digest());
    // 15 updates of all in 16 s.
    EXPECT_NEAR(static_cast<double>(fleet.now_ms()), 60.0 / 15 * 16'000, 3000);
  }
  EXPECT_EQ(digests[0], digests[1]);
}

// Devices of these speeds, each at its own moment, so that none ends with another; a step of speed 1 takes a minute.
std::vector<DeviceHabits> staggered(const std::vector<uint32_t>& slowness) {
  std::vector<DeviceHabits> habits(slowness.size());
  for (size_t i = 0; i < habits.size(); ++i) {
    habits[i].step_ms = uint64_t{60'000} * slowness[i];
    habits[i].cycle_ms = habits[i].awake_ms = 1'000'000'000;  // longer than the run
    habits[i].phase_ms = 100'000 * i / habits.size();
  }
  return habits;
}

// Updates of each device that counted, on time or late, in a run without rounds; and of all, the refused.
struct Shares {
  std::vector<uint64_t> counted;
  uint64_t refused = 0;
};
Shares shares_of(const std::vector<uint32_t>& slowness, uint32_t buffer_size, uint32_t staleness_max) {
  const Data data;
  std::vector<Problem> problems;
  for (uint32_t i = 0; i < slowness.size(); ++i) {
    problems.push_back(data.problems[i % kDeviceCount]);
  }
  RunParameters p = no_rounds();
  p.trigger->device_count = static_cast<uint32_t>(slowness.size());
  p.trigger->buffer_size = buffer_size;
  p.trigger->staleness_max = staleness_max;
  p.trigger->round_count = 1'000'000;
  p.steps->step_size = Real{1} / 16;
  p.trigger->report_deadline_ms = 1'000'000'000;
  EXPECT_EQ(check_parameters(p).sentence, "");
  TimedFleet fleet(p, {}, staggered(slowness), problems, {});
  EXPECT_EQ(fleet.run(6'000'000, go_on), "");  // six tasks of the slowest
  Shares shares;
  for (const DeviceStatus& status : fleet.server().device_statuses()) {
    shares.counted.push_back(status.updates_folded + status.updates_late);
  }
  shares.refused = fleet.server().counters().updates_refused;
  return shares;
}

// The rule of docs/how-to/slow_devices.md and its figures: while the slowest works, each other device j makes T / T_j
// updates, buffer_size of which are a version.
TEST(TimedFleet, EveryDeviceCountsWithTheHarmonicStalenessAndWithOneLessTheSlowestNever) {
  struct Row {
    std::vector<uint32_t> slowness;  // the slowest is the last
    uint32_t buffer_size;
    uint32_t staleness_needed;
  };
  const Row rows[] = {{{1, 2, 4, 8}, 1, 14},
                      {{1, 1, 1, 1, 1, 2, 2, 4, 8}, 1, 50},
                      {{1, 1, 1, 1, 1, 2, 2, 4, 8}, 2, 25},
                      {{1, 1, 1, 1, 2, 2, 2, 2, 4, 4, 4, 4, 8, 8, 8, 8}, 1, 59}};
  for (const Row& row : rows) {
    SCOPED_TRACE(std::to_string(row.slowness.size()) + " devices, buffer " + std::to_string(row.buffer_size));
    const Shares enough = shares_of(row.slowness, row.buffer_size, row.staleness_needed);
    EXPECT_THAT(enough.counted, testing::Each(testing::Ge(5U)));
    EXPECT_EQ(enough.refused, 0U);
    const Shares less = shares_of(row.slowness, row.buffer_size, row.staleness_needed - 1);
    EXPECT_EQ(less.counted.back(), 0U);
    EXPECT_GE(less.refused, 5U);
    // Nobody else is the worse for it.
    EXPECT_TRUE(std::equal(enough.counted.begin(), enough.counted.end() - 1, less.counted.begin()));
  }
}

TEST(TimedFleet, AsyncCurveTrainsANetwork) {
  RunParameters p = no_rounds();
  p.model->manifold = ManifoldId::kEuclidean;
  p.model->shape = {22, 1};
  p.model->problem = kPerceptronOps.name;
  p.local->solver = SolverId::kCurve;
  p.local->batch_mode = BatchMode::kCommon;
  p.local->batch_size = 8;
  p.steps->step_size = static_cast<Real>(0.02);
  p.steps->server_step = static_cast<Real>(0.6);
  p.delay->delay_rule = DelayRule::kOrthoGrad;
  p.delay->late_delay_rule = DelayRule::kOrthoPos;
  p.delay->delay_switch = 30;
  ASSERT_EQ(check_parameters(p).sentence, "");
  const Heaps heaps;
  std::vector<uint64_t> memory(1 << 10);
  Arena arena(memory.data(), memory.size() * 8);
  std::vector<double> losses;
  TimedFleet fleet(p, {}, speeds(), heaps.problems, {});
  EXPECT_EQ(fleet.run(1'000'000,
                      [&](uint64_t, uint32_t, const Real* model) {
                        losses.push_back(heaps.loss(model, arena));
                        return true;
                      }),
            "");
  ASSERT_EQ(losses.size(), 61U);
  EXPECT_LT(losses.back(), 0.6 * losses.front());
}

// What devices of either form make of a run of scalars: every model, and what it took.
struct ScalarRun {
  std::vector<uint64_t> digests;
  size_t arena_size = 0;
  uint64_t bytes_down = 0;
};

ScalarRun train_by_scalars(TimedFleet& fleet, size_t size, bool is_lean) {
  ScalarRun out;
  if (is_lean) {
    fleet.use_lean_form();
  }
  EXPECT_EQ(fleet.run(TimedFleet::kNoEndMs,
                      [&](uint64_t, uint32_t, const Real* model) {
                        out.digests.push_back(digest_values(kDigestStart, size, model));
                        return true;
                      }),
            "");
  out.arena_size = fleet.arena_high_water_size();
  out.bytes_down = fleet.counts().bytes_down;
  return out;
}

// A calm fleet, in which each task is done once.
ScalarRun train_calmly(const RunParameters& p, const Heaps& heaps, bool is_lean) {
  EXPECT_EQ(check_parameters(p), "");
  TimedFleet fleet(p, heaps.problems, {});
  return train_by_scalars(fleet, heaps.size(), is_lean);
}

RunParameters scalar_rounds(const Heaps& heaps) {
  RunParameters p = rounds();
  p.model->manifold = ManifoldId::kEuclidean;
  p.model->shape = {heaps.size(), 1};
  p.model->problem = kPerceptronOps.name;
  p.local->solver = SolverId::kProjection;
  p.local->estimator = EstimatorId::kProjectionOneSided;
  p.local->smoothing = static_cast<Real>(0.01);
  p.local->batch_mode = BatchMode::kCommon;
  p.local->batch_size = 8;
  p.steps->step_size = static_cast<Real>(0.05);
  p.local->correction_form = CorrectionForm::kNone;
  p.trigger->round_count = 20;
  return p;
}

TEST(TimedFleet, DevicesOfTheLeanFormMakeTheSameModels) {
  const Heaps heaps(100);  // 502 numbers: a record is shorter than a snapshot
  struct Form {
    CorrectionForm correction;
    uint32_t steps;
    uint32_t group_count;  // 0: own directions, a record of several blocks
  };
  std::vector<std::vector<uint64_t>> digests;
  for (const Form form :
       {Form{CorrectionForm::kNone, 3, 1}, Form{CorrectionForm::kLocal, 3, 1}, Form{CorrectionForm::kNone, 3, 0},
        Form{CorrectionForm::kNone, 1, 1}, Form{CorrectionForm::kLocal, 1, 0}, Form{CorrectionForm::kMemory, 3, 1}}) {
    SCOPED_TRACE(digests.size());
    RunParameters p = scalar_rounds(heaps);
    p.local->group_count = form.group_count;
    p.local->local_step_count = form.steps;
    p.local->correction_form = form.correction;
    const ScalarRun tensors = train_calmly(p, heaps, false);
    const ScalarRun lean = train_calmly(p, heaps, true);
    EXPECT_EQ(tensors.digests.size(), p.trigger->round_count + 1U);
    EXPECT_EQ(lean.digests, tensors.digests);
    EXPECT_LT(tensors.bytes_down, kDeviceCount * p.trigger->round_count * heaps.size() * sizeof(Real))
        << "records came";
    EXPECT_EQ(lean.bytes_down, tensors.bytes_down) << "each record was applied, no snapshot was asked for";
    if (form.correction != CorrectionForm::kMemory) {  // whose replica is the same
      EXPECT_LT(lean.arena_size, tensors.arena_size);
    }
    digests.push_back(lean.digests);
  }
  EXPECT_NE(digests[0], digests[1]) << "the corrections steer";
}

// The task that came with the record is given again.
TEST(TimedFleet, ALeanDeviceTakesASnapshotInPlaceOfALargeRecord) {
  const Heaps heaps(400);  // 2,002 numbers
  RunParameters p = scalar_rounds(heaps);
  p.local->group_count = 0;
  p.local->local_step_count = 5;
  p.local->direction_count = 1 + kKeptCoefficientMax / (5 * kDeviceCount);
  p.trigger->round_count = 2;
  p.local->batch_size = 2;
  const auto train = [&](bool is_lean) {
    TimedFleet fleet(p, {}, speeds(), heaps.problems, {});
    return train_by_scalars(fleet, heaps.size(), is_lean);
  };
  EXPECT_EQ(check_parameters(p), "");
  const ScalarRun tensors = train(false);
  const ScalarRun lean = train(true);
  EXPECT_EQ(tensors.digests.size(), 3U);
  EXPECT_EQ(lean.digests, tensors.digests);
  EXPECT_GT(lean.bytes_down, tensors.bytes_down);
}

TEST(TimedFleet, ALeanDeviceGivesBackARecordThatBreaksOff) {
  const Heaps heaps(400);
  RunParameters p = scalar_rounds(heaps);
  p.local->group_count = 0;
  p.local->local_step_count = 4;
  p.local->direction_count = 60;  // 960 coefficients in four blocks
  p.trigger->round_count = 3;
  p.local->batch_size = 2;
  const auto train = [&](uint32_t loss_odds) {
    FleetHabits habits;
    habits.loss_odds = loss_odds;
    TimedFleet fleet(p, habits, speeds(), heaps.problems, {});
    const ScalarRun run = train_by_scalars(fleet, heaps.size(), true);
    EXPECT_EQ(fleet.counts().losses > 0, loss_odds != 0);
    return run;
  };
  const ScalarRun calm = train(0);
  const ScalarRun broken = train(12);
  EXPECT_EQ(calm.digests.size(), 4U);
  EXPECT_EQ(broken.digests, calm.digests);
  EXPECT_EQ(broken.arena_size, calm.arena_size);
}

TEST(TimedFleet, GoesOnWithoutThoseThatNeverAnswer) {
  const Data data;
  std::vector<DeviceHabits> habits = speeds();
  habits[0].answers = false;
  TimedFleet fleet(no_rounds(), {}, habits, data.problems, {});
  EXPECT_EQ(fleet.run(1'000'000, go_on), "");
  EXPECT_EQ(fleet.server().durable_version(), 60U);
  EXPECT_EQ(fleet.server().device_statuses()[0].updates_folded + fleet.server().device_statuses()[0].updates_late, 0U);
}

TEST(TimedFleet, SleepLossAndChurnCostTimeOnly) {
  const Data data;
  std::vector<DeviceHabits> habits = speeds();
  for (uint32_t i = 0; i < kDeviceCount; ++i) {
    habits[i].cycle_ms = 100'000;
    habits[i].awake_ms = 60'000;
    habits[i].phase_ms = 20'000 * i;
  }
  FleetHabits losses;
  losses.loss_odds = 20;
  losses.life_ms = 300'000;
  losses.absence_ms = 30'000;
  TimedFleet fleet(no_rounds(), losses, habits, data.problems, {});
  uint32_t record_count = 0;
  fleet.on_record = [&](const JournalRecord& record) {
    return record.sequence() == ++record_count ? "" : "a gap in the journal";
  };
  EXPECT_EQ(fleet.run(10'000'000, go_on), "");
  EXPECT_EQ(fleet.server().durable_version(), 60U);
  EXPECT_GT(fleet.counts().losses, 0U);
  EXPECT_GT(fleet.counts().resets, 3U);
  EXPECT_EQ(fleet.counts().records, record_count);
  EXPECT_LT(fleet.counts().queue_max, 100U);
}

// k of n, or at T: however devices die, a version closes T after it opened, or after so many T as it was extended by.
TEST(TimedFleet, TheTriggerFiresAtItsTimeInAThousandRunsOfDyingDevices) {
  const Data data;
  RunParameters p = rounds();
  p.trigger->update_goal = 3;
  p.trigger->update_min = 2;
  p.trigger->report_deadline_ms = 9000;
  p.trigger->extension_count_max = 1000;
  p.trigger->late = LatePolicy::kWeight;
  p.trigger->staleness_max = 4;
  p.pace->retry_min_ms = 500;
  p.pace->retry_max_ms = 1000;
  uint64_t closed_at_deadline = 0;
  uint64_t extended = 0;
  for (uint32_t seed = 1; seed <= 1000; ++seed) {
    FleetHabits deaths;
    deaths.life_ms = 30'000;
    deaths.absence_ms = 20'000;
    deaths.seed = seed;
    TimedFleet fleet(p, deaths, speeds(), data.problems, {});
    uint64_t opened_ms = 0;
    uint64_t extended_before = 0;
    const std::string fault = fleet.run(100'000'000, [&](uint64_t now_ms, uint32_t version, const Real*) {
      const uint64_t extensions = fleet.server().counters().rounds_extended - extended_before;
      const uint64_t bound_ms = (extensions + 1) * p.trigger->report_deadline_ms + 1 + 1;  // and the record's commit
      EXPECT_TRUE(version == 0 || now_ms - opened_ms <= bound_ms) << "seed " << seed << " version " << version;
      closed_at_deadline +=
          version > 0 && extensions == 0 && now_ms - opened_ms >= p.trigger->report_deadline_ms ? 1 : 0;
      extended_before += extensions;
      opened_ms = now_ms;
      return true;
    });
    ASSERT_EQ(fault, "") << "seed " << seed;
    ASSERT_EQ(fleet.server().durable_version(), p.trigger->round_count) << "seed " << seed;
    extended += extended_before;
  }
  EXPECT_GT(closed_at_deadline, 100U);
  EXPECT_GT(extended, 100U);
}

TEST(TimedFleet, EndsAtItsTimeAndAtWhatTheWatcherOfTheJournalSays) {
  const Data data;
  TimedFleet fleet(rounds(), {}, speeds(), data.problems, {});
  EXPECT_EQ(fleet.run(20'000, go_on), "");
  EXPECT_EQ(fleet.now_ms(), 20'000U);
  EXPECT_EQ(fleet.server().durable_version(), 1U);
  TimedFleet watched(rounds(), {}, speeds(), data.problems, {});
  watched.on_record = [](const JournalRecord& record) {
    return record.kind() == RecordKind::kUpdate ? "an update" : "";
  };
  EXPECT_EQ(watched.run(1'000'000, go_on), "an update");
}

// The norm of the mean of the devices' gradients, apart from what the server knows of it.
double gradient_norm(const Data& data, const RunParameters& p, const Real* model) {
  std::vector<uint64_t> memory(1U << 14);
  Arena arena(memory.data(), memory.size() * sizeof(uint64_t));
  std::vector<Real> mean(p.model->shape.size());
  for (const Problem& problem : data.problems) {
    std::vector<Real> gradient(mean.size());
    const Batch all{nullptr, problem.ops->sample_count(problem.context)};
    EXPECT_EQ(problem.ops->gradient(problem.context, p.model->shape, model, all, gradient.data(), arena), Status::kOk);
    add_scaled(mean.size(), Real{1} / kDeviceCount, gradient.data(), mean.data());
  }
  EXPECT_EQ(kStiefelOps.project_tangent(p.model->shape, model, mean.data(), mean.data(), arena), Status::kOk);
  return static_cast<double>(norm2(mean.size(), mean.data()));
}

TEST(TimedFleet, ARunEndsAtTheFirstModelWhoseGradientIsShortEnough) {
  const Data data;
  RunParameters p = rounds();
  p.local->solver = SolverId::kSvrg;
  p.trigger->round_count = 200;
  p.trigger.keys().stop_gradient_norm = 0.02F;
  ASSERT_EQ(check_parameters(p).sentence, "");
  TimedFleet fleet(p, data.problems, {});
  std::vector<double> norms;  // of each round's model
  EXPECT_EQ(fleet.run(TimedFleet::kNoEndMs,
                      [&](uint64_t, uint32_t version, const Real* model) {
                        if (version % 2 == 1) {
                          norms.push_back(gradient_norm(data, p, model));
                        }
                        return true;
                      }),
            "");
  EXPECT_EQ(fleet.server().end_cause().cause, "stop_gradient_norm");
  ASSERT_GT(norms.size(), 1U);
  EXPECT_LT(norms.size(), 100U);
  EXPECT_LE(norms.back(), 0.02);
  EXPECT_GT(*std::min_element(norms.begin(), norms.end() - 1), 0.02);
}

// What a device says is what the server gets; what the server makes of it stands in its log.
TEST(TimedFleet, ADeviceMayLieAndTheLogTellsOfIt) {
  const Data data;
  TimedFleet fleet(rounds(), data.problems, {});
  fleet.tolerate_refusals();
  fleet.on_device_message = [](uint32_t device, DeviceMessage* message) {
    if (device == 1 && message->which_body == gs_DeviceMessage_update_tangent_tag) {
      message->body.update_tangent.crc32c ^= 1;
    }
  };
  std::string refused;
  fleet.on_log_line = [&](const Action& line) {
    refused += line.event == &"update_refused"_event ? line.text + "\n" : "";
  };
  EXPECT_NE(fleet.run(1'000'000, go_on), "");  // the round waits for the liar
  EXPECT_THAT(refused, testing::HasSubstr("device=d1"));
  EXPECT_THAT(refused, testing::HasSubstr("corrupt"));
}

// Every device makes the same model as the server, or a task's digest would be refused.
TEST(TimedFleet, TrainsAPartOfFixedRank) {
  constexpr uint32_t kSize = (2 + 1 + 1) * 1 + 2;  // U, V, S of a 2 x 1 matrix of rank 1, and two numbers more
  static_assert(kSize == kDimension);
  const Data data;
  const RunParameters p = product_of("fixed_rank 2x1 1, euclidean 2x1", kKpcaOps.name);
  ASSERT_EQ(check_parameters(p), "");
  TimedFleet fleet(p, data.problems, {});
  EXPECT_EQ(fleet.run(TimedFleet::kNoEndMs, go_on), "");
  EXPECT_EQ(fleet.server().model().version(), 2u);
  const Real* const x = fleet.server().model().model();
  EXPECT_NEAR(x[0] * x[0] + x[1] * x[1], 1, 1e-5) << "U is orthonormal";
  EXPECT_NEAR(x[2] * x[2], 1, 1e-5) << "V is";
}

// A network 784-48-10 is a product of more numbers than a side may have.
TEST(TimedFleet, TrainsALargeProduct) {
  static constexpr uint16_t kWidths[] = {784, 48, 10};
  static constexpr auto kRead = [](const void*, uint32_t index, Real* out) {
    for (uint32_t i = 0; i < 784; ++i) {
      out[i] = static_cast<Real>((index * 31 + i * 7) % 17) / 17;
    }
    out[784] = static_cast<Real>(index % 10);
    return Status::kOk;
  };
  const NetworkData network = {{nullptr, 10, 785, kRead}, kWidths, 3};
  const std::vector<Problem> problems(kDeviceCount, {&kPerceptronOps, &network});
  const RunParameters p =
      product_of("euclidean 784x48, euclidean 48x1, euclidean 48x10, euclidean 10x1", kPerceptronOps.name);
  ASSERT_EQ(p.model->shape.rows, 38170u);
  ASSERT_EQ(check_parameters(p), "");
  const std::vector<Real> start(p.model->shape.size(), static_cast<Real>(0.01));
  TimedFleet fleet(p, problems, start);
  EXPECT_EQ(fleet.run(TimedFleet::kNoEndMs, go_on), "");
  EXPECT_EQ(fleet.server().model().version(), 2u);
}

}  // namespace
}  // namespace gradstream
