#include <set>

#include <gtest/gtest.h>

#include "runtime/base/products.h"
#include "runtime/manifold/fixed_rank.h"
#include "server/rules/aggregator.h"
#include "server/run/parts.h"
#include "server/run/run_core.h"
#include "sim/simulation.h"
#include "sim/timed_fleet.h"
#include "tests/support/campaign.h"

namespace gradstream {
namespace {

constexpr uint32_t kAllFaults = (1U << kFaultCount) - 1;

// Whatever goes wrong, the model of each schedule is that of a calm run, whose digest this returns.
uint64_t expect_one_digest(SimOptions options, uint32_t schedule_count) {
  options.fault_bits = 0;
  const SimResult calm = Simulation(options, 0).run();
  EXPECT_EQ(calm.fault, "");
  options.fault_bits = kAllFaults;
  for (uint32_t schedule = 0; schedule < campaign_draws(schedule_count) && !testing::Test::HasFailure(); ++schedule) {
    const SimResult result = Simulation(options, schedule).run();
    EXPECT_EQ(result.fault, "") << "schedule " << schedule;
    EXPECT_EQ(result.digest, calm.digest) << "schedule " << schedule;
  }
  return calm.digest;
}

// Late and partial updates make a digest depend on the schedule; the invariants hold. How many updates were late.
uint64_t expect_sound_with_stragglers(SimOptions options, uint32_t schedule_count) {
  options.has_stragglers = true;
  options.fault_bits = kAllFaults;
  uint64_t late = 0;
  for (uint32_t schedule = 0; schedule < campaign_draws(schedule_count) && !testing::Test::HasFailure(); ++schedule) {
    const SimResult result = Simulation(options, schedule).run();
    EXPECT_EQ(result.fault, "") << "schedule " << schedule;
    late += result.late_count;
  }
  return late;
}

TEST(Simulation, OneDigestWhateverGoesWrong) {
  for (const StreamKind stream : {StreamKind::kScalarStream, StreamKind::kTangentBlock}) {
    SimOptions options;
    options.stream = stream;
    const SimResult calm = Simulation(options, 0).run();
    ASSERT_EQ(calm.fault, "");
    ASSERT_EQ(calm.faults, FaultCounts{});
    options.fault_bits = kAllFaults;
    FaultCounts faults = {};
    for (uint32_t schedule = 0; schedule < campaign_draws(100); ++schedule) {
      const SimResult result = Simulation(options, schedule).run();
      ASSERT_EQ(result.fault, "") << "schedule " << schedule;
      ASSERT_EQ(result.digest, calm.digest) << "schedule " << schedule;
      for (size_t i = 0; i < kFaultCount; ++i) {
        faults[i] += result.faults[i];
      }
    }
    for (size_t i = 0; i < kFaultCount; ++i) {
      EXPECT_EQ(faults[i] == 0, (kHoldFaultBits >> i & 1U) != 0) << kFaultNames[i];
    }
  }
}

// A loss that is measured makes the model of one that is computed, whatever goes wrong while its questions wait.
TEST(Simulation, OneDigestWithLossesThatAreMeasured) {
  for (const StreamKind stream : {StreamKind::kScalarStream, StreamKind::kTangentBlock}) {
    SimOptions options;
    options.stream = stream;
    const uint64_t computed = Simulation(options, 0).run().digest;
    options.asks_needed = 3;
    EXPECT_EQ(expect_one_digest(options, 15), computed);
  }
}

// Evaluations go through crashes of both ends, and replay: the end of each run compares the quality of versions too.
TEST(Simulation, OneDigestWithSamplesHeldOut) {
  for (const StreamKind stream : {StreamKind::kScalarStream, StreamKind::kTangentBlock}) {
    SimOptions options;
    options.stream = stream;
    const uint64_t of_all = Simulation(options, 0).run().digest;
    options.holdout_share = static_cast<Real>(0.3);
    const uint64_t of_some = expect_one_digest(options, 15);
    EXPECT_NE(of_some, of_all) << "other minibatches";
    expect_sound_with_stragglers(options, 10);
    options.asks_needed = 3;
    EXPECT_EQ(expect_one_digest(options, 5), of_some);
  }
}

// Solver projection's, which uploads scalars or mean gradients.
SimOptions memory_options(CorrectionForm form, bool uploads_means) {
  SimOptions options;
  options.stream = uploads_means ? StreamKind::kTangentBlock : StreamKind::kScalarStream;
  options.uploads_means = uploads_means;
  options.correction_form = form;
  return options;
}

// The updates of a version go to several sums, by device, and are merged when it closes: no fault and no number of sums
// changes the model. At the end of each run one sum replays the journal to the same state.
TEST(Simulation, OneDigestWithAnyNumberOfAggregators) {
  std::vector<SimOptions> runs(5);
  runs[1].stream = StreamKind::kTangentBlock;
  runs[2].stream = StreamKind::kTangentBlock;
  runs[2].tangent_solver = SolverId::kTangentMean;
  runs[3].stream = StreamKind::kTangentBlock;
  runs[3].tangent_solver = SolverId::kSvrg;
  runs[4].stream = StreamKind::kTangentBlock;
  runs[4].uploads_means = true;
  for (SimOptions options : runs) {
    options.device_count = 10;
    options.round_count = 3;
    const uint64_t of_one = Simulation(options, 0).run().digest;
    for (const uint32_t count : {2U, 8U}) {
      options.aggregator_count = count;
      ASSERT_EQ(check_aggregator_count(sim_parameters(options), count).sentence, "");
      EXPECT_EQ(expect_one_digest(options, 2), of_one) << count;
    }
    options.participation = Participation::kSchemeOne;
    const uint64_t of_many = expect_one_digest(options, 1);
    options.aggregator_count = 1;
    EXPECT_EQ(Simulation(options, 0).run().digest, of_many);
    options.aggregator_count = 8;
    if (options.tangent_solver != SolverId::kSvrg) {
      expect_sound_with_stragglers(options, 1);
    }
  }
}

// What keeps updates, or goes by their order, is refused with the key that does it.
TEST(Simulation, RulesThatDoNotMergeAreNamed) {
  SimOptions memory = memory_options(CorrectionForm::kMemory, false);
  SimOptions capped;
  capped.weight_share_max = 0.5F;
  SimOptions delayed;
  delayed.stream = StreamKind::kTangentBlock;
  delayed.buffer_size = 2;
  const std::pair<SimOptions, const char*> rows[] = {
      {memory, "correction_form"}, {capped, "weight_share_max"}, {delayed, "delay_rule"}};
  for (const auto& [options, key] : rows) {
    const std::string sentence = check_aggregator_count(sim_parameters(options), 2).sentence;
    EXPECT_NE(sentence.find(key), std::string::npos) << sentence;
    EXPECT_EQ(check_aggregator_count(sim_parameters(options), 1).sentence, "");
  }
}

TEST(Simulation, OneDigestWithAMemoryToo) {
  for (const bool uploads_means : {false, true}) {
    expect_one_digest(memory_options(CorrectionForm::kMemory, uploads_means), 40);
  }
}

// w_i = N_i / N: the devices hold different numbers of samples, and N grows with each that is heard for the first time.
TEST(Simulation, TheMemoryHoldsWhereSamplesWeigh) {
  const uint64_t of_uniform = expect_one_digest(memory_options(CorrectionForm::kMemory, false), 1);
  for (const CorrectionForm form : {CorrectionForm::kMemory, CorrectionForm::kUnbiased}) {
    for (const Participation participation : {Participation::kAll, Participation::kSchemeOne}) {
      for (const bool uploads_means : {false, true}) {
        SimOptions options = memory_options(form, uploads_means);
        options.participation = participation;
        options.memory_weighs_samples = true;
        EXPECT_NE(expect_one_digest(options, 5), of_uniform);
        expect_sound_with_stragglers(options, 5);
      }
    }
  }
}

// Late and partial updates, devices and servers that crash: h and the model are what the journal's updates make them.
TEST(Simulation, TheMemoryHoldsWithStragglers) {
  for (const CorrectionForm form : {CorrectionForm::kMemory, CorrectionForm::kUnbiased, CorrectionForm::kLocal}) {
    for (const bool uploads_means : {false, true}) {
      EXPECT_GT(expect_sound_with_stragglers(memory_options(form, uploads_means), 20), 0U);
    }
  }
}

TEST(Simulation, OneDigestInEveryEncoding) {
  std::set<uint64_t> digests;
  for (const Encoding encoding : {Encoding::kF32, Encoding::kBf16, Encoding::kInt8}) {
    for (const StreamKind stream : {StreamKind::kScalarStream, StreamKind::kTangentBlock}) {
      SimOptions options;
      options.stream = stream;
      options.encoding = encoding;
      digests.insert(expect_one_digest(options, 10));
    }
  }
  EXPECT_EQ(digests.size(), 6U);
}

// A model of four manifolds, by records of scalars and by tangents.
TEST(Simulation, OneDigestOnAProductOfManifolds) {
  std::set<uint64_t> digests;
  for (const StreamKind stream : {StreamKind::kScalarStream, StreamKind::kTangentBlock}) {
    SimOptions options;
    options.stream = stream;
    options.is_product = true;
    digests.insert(expect_one_digest(options, 40));
  }
  EXPECT_EQ(digests.size(), 2U);
}

// A matrix of rank 2 from its entries: by records of scalars, by RFedAGS, by tangent means and with variance reduction.
TEST(Simulation, OneDigestAtFixedRank) {
  std::set<uint64_t> digests;
  SimOptions options;
  options.is_fixed_rank = true;
  digests.insert(expect_one_digest(options, 40));
  options.stream = StreamKind::kTangentBlock;
  for (const SolverId solver : {SolverId::kGradientStream, SolverId::kTangentMean, SolverId::kSvrg}) {
    options.tangent_solver = solver;
    digests.insert(expect_one_digest(options, 20));
  }
  EXPECT_EQ(digests.size(), 4U);
}

// A proximal term in every loss, by forward passes and by gradients: other models than without it, and one digest.
TEST(Simulation, OneDigestWithAProximalTermInTheLoss) {
  std::set<uint64_t> digests;
  for (const StreamKind stream : {StreamKind::kScalarStream, StreamKind::kTangentBlock}) {
    for (const ProximalForm form : {ProximalForm::kGeodesic, ProximalForm::kChordal, ProximalForm::kLorentz}) {
      SimOptions options;
      options.stream = stream;
      options.correction_form = CorrectionForm::kNone;
      options.proximal_form = form;
      digests.insert(expect_one_digest(options, form == ProximalForm::kGeodesic ? 0 : 15));
    }
  }
  EXPECT_EQ(digests.size(), 6U);
}

// The squared geodesic distance on a Grassmann manifold, by forward passes and by gradients: the pull counts.
TEST(Simulation, OneDigestWithAProximalTermOnAGrassmannManifold) {
  std::set<uint64_t> digests;
  for (const StreamKind stream : {StreamKind::kScalarStream, StreamKind::kTangentBlock}) {
    for (const ProximalForm form : {ProximalForm::kGeodesic, ProximalForm::kDistance}) {
      SimOptions options;
      options.stream = stream;
      options.is_grassmann = true;
      options.correction_form = CorrectionForm::kNone;
      options.proximal_form = form;
      digests.insert(expect_one_digest(options, form == ProximalForm::kGeodesic ? 0 : 15));
    }
  }
  EXPECT_EQ(digests.size(), 4U);
}

// Three devices that know a third of the entries of a 6 x 5 matrix of rank 1 each find all of it, by gradients and by
// forward passes alone.
TEST(TimedFleet, CompletesAMatrixOfFixedRank) {
  constexpr uint32_t kRows = 6, kCols = 5;
  struct Entries {
    std::vector<Real> values;
    SampleSource source;
    static Status read(const void* context, uint32_t index, Real* out) {
      std::copy_n(static_cast<const Entries*>(context)->values.data() + size_t{3} * index, 3, out);
      return Status::kOk;
    }
  };
  Entries entries[3];
  std::vector<Real> truth;
  for (uint32_t i = 0; i < kRows; ++i) {
    for (uint32_t j = 0; j < kCols; ++j) {
      truth.push_back((1 + static_cast<Real>(i) / kRows) * (Real{1} - static_cast<Real>(j) / 4));
      std::vector<Real>& values = entries[(i + j) % 3].values;
      values.insert(values.end(), {static_cast<Real>(i), static_cast<Real>(j), truth.back()});
    }
  }
  std::vector<Problem> problems;
  for (Entries& one : entries) {
    one.source = {&one, static_cast<uint32_t>(one.values.size() / 3), 3, Entries::read};
    problems.push_back({&kCompletionOps, &one.source});
  }
  for (const bool is_zeroth_order : {false, true}) {
    RunParameters p = sim_parameters(
        {.stream = is_zeroth_order ? StreamKind::kScalarStream : StreamKind::kTangentBlock, .is_fixed_rank = true});
    p.model->matrix = "6x5";
    p.model->rank = 1;
    set_parts(&p);
    p.trigger->device_count = 3;
    p.local->batch_mode = BatchMode::kAll;
    p.steps->step_size = is_zeroth_order ? Real{1} / 4 : Real{2};
    p.steps->step_decay = 0;
    p.trigger->round_count = is_zeroth_order ? 600 : 200;
    p.local->estimator = is_zeroth_order ? EstimatorId::kProjectionTwoSided : p.local->estimator;
    TimedFleet fleet(p, problems, {});
    std::vector<Real> model(p.model->shape.size());
    ASSERT_EQ(fleet.run(TimedFleet::kNoEndMs,
                        [&](uint64_t, uint32_t, const Real* x) {
                          std::copy_n(x, model.size(), model.data());
                          return true;
                        }),
              "");
    std::vector<Real> dense(truth.size());
    fixed_rank_to_dense(p.model->shape, model.data(), dense.data());
    add_scaled(dense.size(), -1, truth.data(), dense.data());
    EXPECT_LT(norm2(dense.size(), dense.data()) / norm2(truth.size(), truth.data()), Real{2} / 1000);
  }
}

// Units are taken out before version 0 trains: the oracle computes each answer and each table again from the samples,
// and all devices come to one digest whatever goes wrong in whichever stage.
TEST(Simulation, OneDigestWithUnitsTakenOut) {
  std::set<uint64_t> digests;
  for (const StreamKind stream : {StreamKind::kScalarStream, StreamKind::kTangentBlock}) {
    for (const UnitScale scale : {UnitScale::kNone, UnitScale::kCommon, UnitScale::kDeviation, UnitScale::kRange}) {
      SimOptions options;
      options.stream = stream;
      options.centre = scale == UnitScale::kDeviation ? Centre::kNone : Centre::kFederated;
      options.scale = scale;
      options.round_count = 3;
      digests.insert(expect_one_digest(options, 12));
    }
  }
  EXPECT_EQ(digests.size(), 8U);
}

TEST(Simulation, UnitsComeBeforeEveryKindOfRun) {
  SimOptions options;
  options.centre = Centre::kFederated;
  options.scale = UnitScale::kCommon;
  options.round_count = 3;
  options.correction_form = CorrectionForm::kMemory;
  expect_one_digest(options, 8);
  options.correction_form = CorrectionForm::kLocal;
  options.stream = StreamKind::kTangentBlock;
  options.tangent_solver = SolverId::kSvrg;
  expect_one_digest(options, 8);
  options = SimOptions();
  options.centre = Centre::kFederated;
  options.scale = UnitScale::kRange;
  options.participation = Participation::kSchemeOne;
  expect_one_digest(options, 8);
}

// What encodings leave out is kept, saved, taken back and carried to other models whatever goes wrong.
TEST(Simulation, OneDigestWithErrorFeedback) {
  std::set<uint64_t> digests;
  for (const bool uploads_means : {false, true}) {
    SimOptions options;
    options.stream = StreamKind::kTangentBlock;
    options.uploads_means = uploads_means;
    options.correction_form = CorrectionForm::kNone;
    options.encoding = Encoding::kInt8;
    digests.insert(Simulation(options, 0).run().digest);
    options.error_feedback = true;
    digests.insert(expect_one_digest(options, 60));
    expect_sound_with_stragglers(options, 20);
  }
  EXPECT_EQ(digests.size(), 4U);
}

TEST(Simulation, OneDigestWhereCohortsAreChosen) {
  std::set<uint64_t> digests;
  for (const Participation participation : {Participation::kSchemeOne, Participation::kSchemeTwo}) {
    for (const StreamKind stream : {StreamKind::kScalarStream, StreamKind::kTangentBlock}) {
      SimOptions options;
      options.stream = stream;
      options.participation = participation;
      digests.insert(expect_one_digest(options, 20));
      expect_sound_with_stragglers(options, 10);
    }
  }
  EXPECT_EQ(digests.size(), 4U);
}

// A memory in a fleet of which only some are asked: no correction depends on what a device missed.
TEST(Simulation, OneDigestWithAMemoryWhereCohortsAreChosen) {
  for (const CorrectionForm form : {CorrectionForm::kMemory, CorrectionForm::kUnbiased}) {
    for (const Participation participation : {Participation::kSchemeOne, Participation::kSchemeTwo}) {
      for (const bool uploads_means : {false, true}) {
        SimOptions options = memory_options(form, uploads_means);
        options.participation = participation;
        expect_one_digest(options, 10);
        expect_sound_with_stragglers(options, 5);
      }
    }
  }
}

// Tangent means, and rounds of two phases, with all devices and with cohorts.
TEST(Simulation, OneDigestWhateverTheSolver) {
  std::set<uint64_t> digests;
  for (const SolverId solver : {SolverId::kTangentMean, SolverId::kSvrg}) {
    for (const Participation participation : {Participation::kAll, Participation::kSchemeOne}) {
      SimOptions options;
      options.stream = StreamKind::kTangentBlock;
      options.tangent_solver = solver;
      options.participation = participation;
      digests.insert(expect_one_digest(options, 20));
      expect_sound_with_stragglers(options, 10);
    }
  }
  EXPECT_EQ(digests.size(), 4U);
}

TEST(Simulation, TheInvariantsHoldWithStragglersToo) {
  for (const StreamKind stream : {StreamKind::kScalarStream, StreamKind::kTangentBlock}) {
    SimOptions options;
    options.stream = stream;
    options.has_stragglers = true;
    options.fault_bits = kAllFaults;
    uint64_t late = 0;
    uint64_t partial = 0;
    for (uint32_t schedule = 0; schedule < campaign_draws(50); ++schedule) {
      const SimResult result = Simulation(options, schedule).run();
      ASSERT_EQ(result.fault, "") << "schedule " << schedule;
      late += result.late_count;
      partial += result.partial_count;
    }
    EXPECT_GT(late, 0U);
    EXPECT_GT(partial, 0U);
  }
}

// Each device is asked for what it can do in time, and no honest one is said to have had none.
TEST(Simulation, TheInvariantsHoldWithTimedWork) {
  for (const StreamKind stream : {StreamKind::kScalarStream, StreamKind::kTangentBlock}) {
    SimOptions options;
    options.stream = stream;
    options.is_timed = true;
    EXPECT_GT(expect_sound_with_stragglers(options, 30), 0U);
  }
}

// No rounds: every update a version, or every two; each is folded once, and every step is that of its updates.
TEST(Simulation, TheInvariantsHoldWithoutRounds) {
  for (const StreamKind stream : {StreamKind::kScalarStream, StreamKind::kTangentBlock}) {
    for (const uint32_t buffer_size : {1U, 2U}) {
      for (const bool has_stragglers : {false, true}) {
        SimOptions options;
        options.stream = stream;
        options.buffer_size = buffer_size;
        options.has_stragglers = has_stragglers;
        options.memory_weighs_samples = stream == StreamKind::kTangentBlock && !has_stragglers;
        options.round_count = 16;
        options.fault_bits = kAllFaults;
        uint64_t late = 0;
        for (uint32_t schedule = 0; schedule < campaign_draws(20) && !HasFailure(); ++schedule) {
          const SimResult result = Simulation(options, schedule).run();
          EXPECT_EQ(result.fault, "") << "schedule " << schedule;
          late += result.late_count;
        }
        EXPECT_GT(late, 0U);
      }
    }
  }
}

// The operator pauses and goes on, amid everything else: no task and no version in between, and nothing is lost by it.
TEST(Simulation, PausesCostTimeOnly) {
  for (const StreamKind stream : {StreamKind::kScalarStream, StreamKind::kTangentBlock}) {
    SimOptions options;
    options.stream = stream;
    const SimResult calm = Simulation(options, 0).run();
    options.fault_bits = 1U << static_cast<uint32_t>(Fault::kPause) | 1U << static_cast<uint32_t>(Fault::kServerCrash) |
                         1U << static_cast<uint32_t>(Fault::kStorageFull);
    uint64_t pauses = 0;
    for (uint32_t schedule = 0; schedule < 15; ++schedule) {
      const SimResult result = Simulation(options, schedule).run();
      ASSERT_EQ(result.fault, "") << "schedule " << schedule;
      ASSERT_EQ(result.digest, calm.digest) << "schedule " << schedule;
      pauses += result.faults[static_cast<size_t>(Fault::kPause)];
    }
    EXPECT_GT(pauses, 10U);
  }
}

// No update weighs more than its share of a version, whoever is late, partial or gone.
TEST(Simulation, TheWeightCapHoldsWhateverGoesWrong) {
  std::set<uint64_t> digests;
  for (const StreamKind stream : {StreamKind::kScalarStream, StreamKind::kTangentBlock}) {
    SimOptions options;
    options.stream = stream;
    digests.insert(Simulation(options, 0).run().digest);
    options.weight_share_max = 0.28F;  // of four devices with 6, 7, 8 and 9 samples
    digests.insert(expect_one_digest(options, 10));
    options.weight_share_max = 0.34F;  // of three answers
    EXPECT_GT(expect_sound_with_stragglers(options, 10), 0U);
  }
  EXPECT_EQ(digests.size(), 4U) << "the cap changes the weights";
}

TEST(Simulation, DeadlinesEndWhatNobodyIsToldOf) {
  SimOptions options;
  const SimResult calm = Simulation(options, 0).run();
  EXPECT_EQ(calm.client_deadline_count, 0U);
  EXPECT_EQ(calm.session_deadline_count, 0U);
  options.fault_bits = 1U << static_cast<uint32_t>(Fault::kSilence);
  uint64_t client_deadlines = 0;
  uint64_t session_deadlines = 0;
  for (uint32_t schedule = 0; schedule < campaign_draws(50); ++schedule) {
    const SimResult result = Simulation(options, schedule).run();
    ASSERT_EQ(result.fault, "") << "schedule " << schedule;
    ASSERT_EQ(result.digest, calm.digest);
    client_deadlines += result.client_deadline_count;
    session_deadlines += result.session_deadline_count;
  }
  EXPECT_GT(client_deadlines, 0U);
  EXPECT_GT(session_deadlines, 0U);
}

TEST(Simulation, AScheduleCanBeRunAgain) {
  SimOptions options;
  options.fault_bits = kAllFaults;
  Simulation first(options, 3);
  Simulation second(options, 3);
  const SimResult a = first.run();
  const SimResult b = second.run();
  EXPECT_EQ(a.event_count, b.event_count);
  EXPECT_EQ(a.faults, b.faults);
  EXPECT_EQ(first.store().records(), second.store().records());
}

TEST(Simulation, ManyDevicesAndRounds) {
  SimOptions options;
  options.device_count = 9;
  options.round_count = 40;
  options.fault_bits = kAllFaults;
  std::set<uint64_t> digests;
  for (uint32_t schedule = 0; schedule < 3; ++schedule) {
    const SimResult result = Simulation(options, schedule).run();
    ASSERT_EQ(result.fault, "");
    digests.insert(result.digest);
  }
  EXPECT_EQ(digests.size(), 1U);
}

TEST(Simulation, FindsAPlantedDoubleFold) {
  for (const StreamKind stream : {StreamKind::kScalarStream, StreamKind::kTangentBlock}) {
    SimOptions options;
    options.stream = stream;
    options.fault_bits = kAllFaults;
    options.plants.double_fold = true;
    uint32_t schedule = 0;
    while (schedule < 100 && Simulation(options, schedule).run().fault.empty()) {
      ++schedule;
    }
    EXPECT_LT(schedule, 100U);
  }
}

TEST(Simulation, FindsAPlantedStep) {
  for (const StreamKind stream : {StreamKind::kScalarStream, StreamKind::kTangentBlock}) {
    SimOptions options;
    options.stream = stream;
    options.plants.step = true;
    EXPECT_NE(Simulation(options, 0).run().fault.find("the step of a version"), std::string::npos);
  }
}

TEST(Oracle, NoticesWhatLeavesTooEarlyOrSaysSomethingElse) {
  SimOptions options;
  options.round_count = 2;
  Simulation simulation(options, 0);
  ASSERT_EQ(simulation.run().fault, "");
  Oracle oracle(sim_parameters(options));
  JournalRecord update;
  ServerMessage welcome = {};
  welcome.which_body = gs_ServerMessage_welcome_tag;
  welcome.body.welcome.run_state = gs_RunState_RUN_STATE_FINISHED;
  ServerMessage answered = {};
  answered.which_body = gs_ServerMessage_wait_tag;
  answered.body.wait.cause = gs_WaitCause_WAIT_CAUSE_ANSWERED;
  ServerMessage ack = {};
  ack.which_body = gs_ServerMessage_ack_tag;
  for (const JournalRecord& record : simulation.store().records()) {
    if (record.kind() == RecordKind::kUpdate) {
      ack.body.ack.task_sequence = record.task_sequence();
      ack.body.ack.verdict = gs_Verdict_VERDICT_FOLDED;
      ack.body.ack.version = record.version();
      EXPECT_NE(oracle.on_message(record.device(), ack, {}), "");  // not durable yet
      const Oracle::Request pull = oracle.request(0);
      EXPECT_NE(oracle.on_message(record.device(), answered, pull), "");
      EXPECT_EQ(oracle.on_record(record), "");
      EXPECT_EQ(oracle.on_message(record.device(), answered, pull), "");
      EXPECT_EQ(oracle.on_message(record.device(), ack, {}), "");
      ack.body.ack.verdict = gs_Verdict_VERDICT_LATE;
      EXPECT_NE(oracle.on_message(record.device(), ack, {}), "");
      update = record;
    } else {
      EXPECT_NE(oracle.on_message(0, welcome, oracle.request(0)), "");
      EXPECT_EQ(oracle.on_record(record), "");
    }
  }
  EXPECT_EQ(oracle.version(), 2U);
  ack.body.ack.verdict = gs_Verdict_VERDICT_SUPERSEDED;
  EXPECT_NE(oracle.on_message(update.device(), ack, {}), "");  // the last one
  --ack.body.ack.task_sequence;
  EXPECT_EQ(oracle.on_message(update.device(), ack, {}), "");
  EXPECT_EQ(oracle.on_message(0, welcome, oracle.request(0)), "");
  welcome.body.welcome.abandoned = true;
  EXPECT_NE(oracle.on_message(0, welcome, oracle.request(1)), "");  // that one was folded
  update.set_sequence(simulation.store().records().back().sequence() + 1);
  EXPECT_NE(oracle.on_record(update).find("folded twice"), std::string::npos);
}

}  // namespace
}  // namespace gradstream
