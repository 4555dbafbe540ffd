// The memory form of A9 and A10 against the recursion (B1) to (B4) of docs/algorithms.md, computed here in double from
// the directions themselves.
#include <cmath>
#include <map>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/base/state_archive.h"
#include "server/coordinator/fleet.h"
#include "server/rules/aggregator.h"
#include "server/run/check_parameters.h"
#include "server/run/limits.h"
#include "server/run/run_core.h"
#include "server/run/weights.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

RunParameters memory_parameters(CorrectionForm form) {
  RunParameters p = scalar_parameters();
  p.local->correction_form = form;
  p.fold->fold_weight = FoldWeight::kUniform;
  return p;
}

// The same with w_i = N_i / N, and whatever else updates can be: late, partial, of shared directions.
RunParameters weighed_parameters(CorrectionForm form) {
  RunParameters p = memory_parameters(form);
  p.fold->fold_weight = FoldWeight::kSampleCount;
  p.trigger->late = LatePolicy::kWeight;
  p.trigger->update_goal = 1;
  return p;
}

// A rule with its replica, the recursion beside it, and a second replica that only ever gets records.
class Memory {
 public:
  explicit Memory(const RunParameters& p) : p_(p), server_(p), follower_(p), models_(8) {
    EXPECT_EQ(check_parameters(p).sentence, "");
    fleet_ = std::make_unique<Fleet>(std::vector<std::string>(p.trigger->device_count, "device"));
    rule_ = make_aggregator({&server_.parameters, &server_.replica, &models_, &server_.arena, fleet_.get()});
    std::vector<Real> point(p.model->shape.size());
    EXPECT_EQ(server_.replica.manifold().random_point(p.model->shape, {5, RandomDomain::kInitialPoint, 0, 0, 0},
                                                      point.data(), server_.arena),
              Status::kOk);
    follow(first_record(p, p.trigger->device_count, point.data()));
    samples_.assign(p.trigger->device_count, 1);
    inverse_participation_.assign(p.trigger->device_count, 1);
  }
  // N_i of the updates that are added from now on.
  void set_samples(std::vector<uint16_t> samples) { samples_ = std::move(samples); }
  // 1 / q_i of the same.
  void set_inverse_participation(std::vector<Real> inverse) { inverse_participation_ = std::move(inverse); }
  Fleet& fleet() { return *fleet_; }
  Replica& replica() { return server_.replica; }
  Arena& arena() { return server_.arena; }
  const VersionRecord& record() const { return record_; }
  uint32_t version() const { return server_.replica.version(); }
  Aggregator& rule() { return *rule_; }

  FoldInput input(uint32_t device, uint32_t base, uint32_t steps, const std::vector<Real>& values,
                  uint32_t om = kStalenessOne) const {
    return {p_.owner_of(device), base, steps, static_cast<uint16_t>(om), values, device, inverse_participation_[device],
            samples_[device]};
  }
  // A random update, also in the recursion.
  void add(uint32_t device, uint32_t base, uint32_t steps, uint32_t om = kStalenessOne) {
    const bool is_scalar = p_.stream() == StreamKind::kScalarStream;
    const std::vector<Real> s =
        draw_values(is_scalar ? steps * p_.local->direction_count : p_.model->shape.size(), 1000 * device + base, 2);
    ASSERT_EQ(rule_->add(input(device, base, steps, s, om)), Status::kOk);
    added_.push_back({device, steps, om, {samples_[device] / 1.0, gbar(device, base, steps, s)}});
  }
  // Closes the version; both replicas and the recursion follow.
  void close() {
    // Of all devices, or of those heard of, N with what they say now.
    std::map<uint32_t, Last> next = last_;
    for (const Added& a : added_) {
      next[a.device] = a.last;
    }
    const bool is_uniform = p_.fold->fold_weight == FoldWeight::kUniform;
    const double total = is_uniform ? fleet_->size() : total_of(next);
    const double n = is_uniform ? fleet_->size() : static_cast<double>(next.size());
    const double a_by_w =
        p_.local->correction_form == CorrectionForm::kUnbiased ? n / static_cast<double>(added_.size()) : 1;
    std::vector<double> d = mean_of(last_, total);
    double steps = 0;
    double weight = 0;
    for (const Added& a : added_) {
      const auto old = last_.find(a.device);
      const double inverse_pi =
          is_unbiased(*p_.cohort) ? static_cast<double>(inverse_participation_[a.device]) : a_by_w;
      const double share = inverse_pi * a.om / kStalenessOne / total;
      for (size_t e = 0; e < d.size(); ++e) {
        d[e] += share * a.last.samples * a.last.gbar[e];
        d[e] -= old == last_.end() ? 0 : share * old->second.samples * old->second.gbar[e];
      }
      last_[a.device] = a.last;
      steps += a.last.samples * a.steps;
      weight += a.last.samples;
    }
    steps /= weight;
    if (!is_uniform) {
      std::erase_if(last_, [&](const auto& entry) { return fleet_->at(entry.first).is_revoked; });
    }
    const std::vector<double> h = mean_of(last_, is_uniform ? total : total_of(last_));
    std::vector<Real> z(d.size());
    for (size_t e = 0; e < z.size(); ++e) {
      z[e] = static_cast<Real>(static_cast<double>(server_.replica.model()[e]) -
                               static_cast<double>(p_.steps->server_step * p_.step_size_at(version())) * steps * d[e]);
    }
    ASSERT_EQ(kStiefelOps.project_point(p_.model->shape, z.data(), z.data(), server_.arena), Status::kOk);
    ASSERT_EQ(rule_->finish(&record_), Status::kOk);
    follow(record_);
    added_.clear();
    for (size_t e = 0; e < z.size(); ++e) {
      ASSERT_NEAR(server_.replica.model()[e], z[e], 3e-6) << "version " << version();
      ASSERT_NEAR(static_cast<double>(server_.replica.mean()[e]) * unit(), h[e], 3e-6) << "version " << version();
    }
  }

 private:
  struct Last {
    double samples;
    std::vector<double> gbar;
  };
  struct Added {
    uint32_t device;
    uint32_t steps;
    uint32_t om;
    Last last;
  };
  static double total_of(const std::map<uint32_t, Last>& last) {
    return std::accumulate(last.begin(), last.end(), 0.0, [](double t, const auto& l) { return t + l.second.samples; });
  }
  std::vector<double> mean_of(const std::map<uint32_t, Last>& last, double total) const {
    std::vector<double> mean(p_.model->shape.size());
    for (const auto& [device, one] : last) {
      for (size_t e = 0; e < mean.size(); ++e) {
        mean[e] += one.samples / total * one.gbar[e];
      }
    }
    return mean;
  }
  double unit() const {
    return p_.stream() == StreamKind::kScalarStream
               ? static_cast<double>(exact_unit(p_.model->shape, p_.fold->fold_scale_log2)) *
                     static_cast<double>(estimate_factor(p_.model->shape, p_.local->direction_count))
               : std::ldexp(1.0, -static_cast<int>(p_.fold->fold_scale_log2));
  }
  std::vector<double> gbar(uint32_t device, uint32_t base, uint32_t steps, const std::vector<Real>& s) const {
    if (p_.stream() == StreamKind::kTangentBlock) {
      return {s.begin(), s.end()};
    }
    std::vector<double> sum(p_.model->shape.size());
    std::vector<Real> u(sum.size());
    for (uint32_t q = 0; q < s.size(); ++q) {
      fill_direction(direction_spec(p_, base, p_.owner_of(device)), p_.model->shape, q / p_.local->direction_count,
                     q % p_.local->direction_count, u.data());
      for (size_t e = 0; e < sum.size(); ++e) {
        sum[e] += static_cast<double>(s[q]) * static_cast<double>(u[e]) * static_cast<double>(sum.size()) /
                  p_.local->direction_count / steps;
      }
    }
    return sum;
  }
  // Through the journal's bytes, to the server's replica and the follower's.
  void follow(VersionRecord record) {
    if (p_.cohort->participation != Participation::kAll) {
      record.cohort = {p_.trigger->device_count, {0}};  // no rule asks for more than that there is one
    }
    VersionRecord read;
    read.version = record.version;
    read.step_scale = record.step_scale;
    read.digest = record.digest;
    ASSERT_EQ(decode_payload(p_, encode_payload(record), &read), Status::kOk);
    ASSERT_EQ(read, record);
    ASSERT_EQ(apply_record(p_, read, server_.replica, server_.arena), Status::kOk);
    ASSERT_EQ(apply_record(p_, read, follower_.replica, follower_.arena), Status::kOk);
    ASSERT_EQ(server_.replica.digest(), follower_.replica.digest());
    ASSERT_EQ(rule_->follow(read), Status::kOk);
  }

  RunParameters p_;
  TestReplica server_;
  TestReplica follower_;
  ModelRing models_;
  std::unique_ptr<Fleet> fleet_;
  std::unique_ptr<Aggregator> rule_;
  VersionRecord record_;
  std::vector<uint16_t> samples_;
  std::vector<Real> inverse_participation_;
  std::map<uint32_t, Last> last_;
  std::vector<Added> added_;
};

// What a snapshot of `from` brings to a device, through its bytes; without the mean, which is then 0.
void take_snapshot(const Replica& from, bool has_mean, TestReplica* to) {
  const Shape shape = to->parameters.model->shape;
  ASSERT_EQ(read_model(shape, model_bytes(shape, from.model()), to->replica.begin_snapshot()), Status::kOk);
  const std::vector<FixedWord> zero(shape.size());
  load_words(shape.size(), mean_bytes(shape, has_mean ? from.mean() : zero.data()).data(), to->replica.mean_buffer());
  to->replica.adopt_snapshot(from.version());
}

// Random participation, k_i in 1..3, updates up to 2 versions late with their weights, shared and own directions.
TEST(AggregatorMemory, FollowsTheRecursion) {
  for (const CorrectionForm form : {CorrectionForm::kMemory, CorrectionForm::kUnbiased}) {
    for (const uint32_t group_count : {1U, 0U, 2U}) {
      RunParameters p = memory_parameters(form);
      p.local->group_count = group_count;
      p.trigger->late = LatePolicy::kWeight;
      p.trigger->update_goal = 1;
      Memory memory(p);
      std::vector<int64_t> stamps(p.trigger->device_count, -1);
      RandomStream draw({3, RandomDomain::kData, group_count, 0, 0});
      for (uint32_t round = 0; round < 40; ++round) {
        uint32_t count = 0;
        for (uint32_t device = 0; device < p.trigger->device_count; ++device) {
          const uint32_t late = draw.next() % 3;
          const uint32_t base = memory.version() < late ? 0 : memory.version() - late;
          if ((draw.next() % 2 == 0 && count > 0) || base <= stamps[device]) {
            continue;
          }
          ASSERT_NO_FATAL_FAILURE(
              memory.add(device, base, 1 + draw.next() % 3, staleness_weight(*p.trigger, memory.version() - base)));
          stamps[device] = base;
          ++count;
        }
        if (count == 0) {
          ASSERT_NO_FATAL_FAILURE(memory.add(0, memory.version(), 3));
          stamps[0] = memory.version();
        }
        ASSERT_NO_FATAL_FAILURE(memory.close());
      }
    }
  }
}

// The weights N_i / N: a fleet that is heard of little by little, answers late and in parts, in which one device comes
// back with other samples and another leaves. Weights change in dense records alone.
TEST(AggregatorMemory, FollowsTheRecursionOfUnequalSamples) {
  for (const CorrectionForm form : {CorrectionForm::kMemory, CorrectionForm::kUnbiased}) {
    for (const bool is_dense : {false, true}) {
      RunParameters p = weighed_parameters(form);
      p.local->estimator = is_dense ? EstimatorId::kAnalyticGradient : p.local->estimator;
      Memory memory(p);
      std::vector<uint16_t> samples = {1, 10, 300, 65535};
      uint32_t total = 0;
      uint32_t change_count = 0;
      uint32_t block_count = 0;
      for (uint32_t round = 0; round < 40; ++round) {
        samples[1] = round < 20 ? 10 : 4000;
        memory.set_samples(samples);
        if (round == 30) {
          memory.fleet().revoke(3);
        }
        for (uint32_t device = 0; device < p.trigger->device_count; ++device) {
          if (round >= 2 * device && (round + device) % (device + 1) == 0 && !(device == 3 && round >= 30)) {
            const uint32_t late = std::min(round % 2, device);
            ASSERT_NO_FATAL_FAILURE(
                memory.add(device, memory.version() - late, 1 + round % 3, staleness_weight(*p.trigger, late)));
          }
        }
        ASSERT_NO_FATAL_FAILURE(memory.close());
        if (memory.record().mean.empty()) {
          ++block_count;
          continue;
        }
        change_count += memory.record().weight_total != total ? 1 : 0;
        total = memory.record().weight_total;
      }
      EXPECT_EQ(total, 1U + 4000 + 300);
      EXPECT_EQ(change_count, 4U + 1 + 1);  // heard of, changed, left
      EXPECT_EQ(block_count > 0, !is_dense);
    }
  }
}

// a_i = w_i / q_i where devices are drawn with probabilities, w_i uniform or by samples. Late ones too.
TEST(AggregatorMemory, DividesByTheParticipationThatWasDrawn) {
  for (const FoldWeight weight : {FoldWeight::kUniform, FoldWeight::kSampleCount}) {
    RunParameters p = weighed_parameters(CorrectionForm::kUnbiased);
    p.fold->fold_weight = weight;
    p.cohort->participation = Participation::kSchemeTwo;
    p.cohort->participation_probability = "0.9 0.6 0.3 0.2";
    Memory memory(p);
    if (weight == FoldWeight::kSampleCount) {
      memory.set_samples({3, 500, 60000, 8});
    }
    std::vector<uint32_t> taken_part(p.trigger->device_count);
    for (uint32_t round = 0; round < 20; ++round) {
      std::vector<Real> inverse;
      for (uint32_t device = 0; device < p.trigger->device_count; ++device) {
        inverse.push_back(inverse_participation(*p.cohort, {}, device, taken_part[device], round));  // counted
        taken_part[device] += round % (device + 1) == 0 ? 1 : 0;
      }
      memory.set_inverse_participation(inverse);
      for (uint32_t device = 0; device < p.trigger->device_count; ++device) {
        if (round % (device + 1) == 0) {
          const uint32_t late = std::min(round % 2, device);
          ASSERT_NO_FATAL_FAILURE(
              memory.add(device, memory.version() - late, 1 + round % 3, staleness_weight(*p.trigger, late)));
        }
      }
      ASSERT_NO_FATAL_FAILURE(memory.close());
    }
  }
}

// Over all draws of a cohort the mean of d is the mean of the Gbar_i, whatever the memory holds: which 1/|A| is not.
TEST(AggregatorMemory, TheUnbiasedFormIsUnbiasedUnderUnequalProbabilities) {
  RunParameters p = memory_parameters(CorrectionForm::kUnbiased);
  p.local->estimator = EstimatorId::kAnalyticGradient;
  p.cohort->participation = Participation::kSchemeTwo;
  p.cohort->participation_probability = "0.75 0.5 0.25 0.125";
  p.cohort->participation_weights = ParticipationWeights::kTrue;
  const std::vector<Real> probabilities = participation_probabilities(*p.cohort);
  const auto distance = [&](ParticipationWeights weights) {
    p.cohort->participation_weights = weights;
    std::vector<double> mean(p.model->shape.size());
    std::vector<double> wanted(p.model->shape.size());
    double empty = 1;
    for (uint32_t drawn = 0; drawn < 16; ++drawn) {
      TestRule rule(p);
      double probability = 1;
      for (uint32_t device = 0; device < 4; ++device) {
        const auto q = static_cast<double>(probabilities[device]);
        const bool is_in = (drawn >> device & 1) != 0;
        probability *= is_in ? q : 1 - q;
        // Small beside the model, so that P_M is the tangent step to first order.
        std::vector<Real> g(p.model->shape.size());
        g[4 + device] = Real{1} / 1024;
        if (is_in) {
          const Real inverse = inverse_participation(*p.cohort, probabilities, device, 0, 0);
          EXPECT_EQ(rule.rule->add({0, 2, 1, kStalenessOne, g, device, inverse, 1}), Status::kOk);
        }
        wanted[4 + device] = 1.0 / 1024 / 4;
      }
      empty = drawn == 0 ? probability : empty;
      if (drawn == 0) {
        continue;  // no step
      }
      const VersionRecord record = rule.record();
      std::vector<Real> next(p.model->shape.size());
      EXPECT_EQ(read_model(p.model->shape, record.model, next.data()), Status::kOk);
      for (size_t e = 4; e < 8; ++e) {
        mean[e] -= probability * static_cast<double>(next[e]) / static_cast<double>(record.step_scale);
      }
    }
    double worst = 0;
    for (size_t e = 4; e < 8; ++e) {
      worst = std::max(worst, std::fabs(mean[e] / wanted[e] - 1));
    }
    return worst;
  };
  EXPECT_LT(distance(ParticipationWeights::kTrue), 1e-3);
  EXPECT_GT(distance(ParticipationWeights::kBiased), 0.1);
}

// With equal samples all is what it is with w_i = 1/n, bit for bit, once every device has been heard of.
TEST(AggregatorMemory, EqualSamplesWeighAsNone) {
  for (const CorrectionForm form : {CorrectionForm::kMemory, CorrectionForm::kUnbiased}) {
    RunParameters p = weighed_parameters(form);
    Memory weighed(p);
    weighed.set_samples(std::vector<uint16_t>(p.trigger->device_count, 601));
    p.fold->fold_weight = FoldWeight::kUniform;
    Memory uniform(p);
    for (uint32_t round = 0; round < 12; ++round) {
      for (uint32_t device = 0; device < p.trigger->device_count; ++device) {
        if (round == 0 || (round + device) % 3 == 0) {
          const uint32_t late = round < 3 ? 0 : device % 2;
          for (Memory* memory : {&weighed, &uniform}) {
            ASSERT_NO_FATAL_FAILURE(
                memory->add(device, round - late, 1 + round % 3, staleness_weight(*p.trigger, late)));
          }
        }
      }
      ASSERT_NO_FATAL_FAILURE(weighed.close());
      ASSERT_NO_FATAL_FAILURE(uniform.close());
      ASSERT_EQ(weighed.replica().digest(), uniform.replica().digest()) << round;
      if (round > 0) {  // dense, for the weights are new
        ASSERT_EQ(weighed.record().blocks, uniform.record().blocks) << round;
      }
    }
  }
}

// Samples are known from the journal: a server that begins anew after any record ends with the same models. Devices
// that only some versions hear of, one update of which is late.
TEST(AggregatorMemory, ARestartKeepsTheSamples) {
  RunParameters p = weighed_parameters(CorrectionForm::kMemory);
  p.trigger->update_goal = 2;
  TestServer calm(p);
  TestServer stormy(p);
  for (TestServer* const server : {&calm, &stormy}) {
    const bool restarts = server == &stormy;
    server->start();
    server->join(4);
    const TestUpload late = server->good_upload(3);
    for (uint32_t round = 0; round < 8; ++round) {
      const std::vector<uint32_t> pair = {round % 3, (round + 1) % 3};
      std::vector<TestUpload> uploads;
      for (const uint32_t device : pair) {
        server->pull(device);
        uploads.push_back(server->good_upload(device));
      }
      for (uint32_t i = 0; i < pair.size(); ++i) {
        const uint32_t device = pair[i];
        if (restarts) {
          server->restart();
          for (uint32_t each = 0; each < 4; ++each) {
            server->hello(each, good_hello(1));  // what it has now; the task's update is of what it had
          }
        }
        server->upload(device, uploads[i]);
        ASSERT_EQ(server->ack(device)->verdict, gs_Verdict_VERDICT_FOLDED);
        for (uint32_t each = 0; restarts && each < 4; ++each) {
          server->hello(each);
        }
      }
      if (round == 3) {
        server->upload(3, late);
        ASSERT_EQ(server->ack(3)->verdict, gs_Verdict_VERDICT_LATE);
      }
    }
  }
  EXPECT_EQ(stormy.coordinator->model().version(), calm.coordinator->model().version());
  EXPECT_EQ(stormy.coordinator->model().digest(), calm.coordinator->model().digest());
  uint32_t total = 0;
  for (const JournalRecord& record : stormy.store.records()) {
    VersionRecord version;
    version.version = record.version();
    if (record.kind() == RecordKind::kVersion && decode_payload(p, record.payload(), &version) == Status::kOk &&
        !version.mean.empty()) {
      total = version.weight_total;
    }
  }
  EXPECT_EQ(total, 10U + 20 + 30 + 40);
}

TEST(AggregatorMemory, FollowsTheRecursionWithDenseGradients) {
  RunParameters p = memory_parameters(CorrectionForm::kMemory);
  p.local->estimator = EstimatorId::kAnalyticGradient;
  Memory memory(p);
  for (uint32_t round = 0; round < 20; ++round) {
    for (uint32_t device = round % 2; device < p.trigger->device_count; device += 2) {
      ASSERT_NO_FATAL_FAILURE(memory.add(device, memory.version(), 1 + device % 3));
    }
    ASSERT_NO_FATAL_FAILURE(memory.close());
    EXPECT_FALSE(memory.record().mean.empty());
  }
}

// With everyone, on time: one block, whatever was there before. With some: what is new and what it replaces.
TEST(AggregatorMemory, RecordsAreShort) {
  const RunParameters p = memory_parameters(CorrectionForm::kMemory);
  Memory memory(p);
  for (uint32_t round = 0; round < 3; ++round) {
    for (uint32_t device = 0; device < p.trigger->device_count; ++device) {
      ASSERT_NO_FATAL_FAILURE(memory.add(device, memory.version(), 3));
    }
    ASSERT_NO_FATAL_FAILURE(memory.close());
    ASSERT_EQ(memory.record().blocks.size(), 1U);
    EXPECT_EQ(memory.record().from_zero, round > 0);
    EXPECT_EQ(memory.record().blocks[0].value_count, 12U);
  }
  ASSERT_NO_FATAL_FAILURE(memory.add(1, memory.version(), 3));
  ASSERT_NO_FATAL_FAILURE(memory.close());
  ASSERT_EQ(memory.record().blocks.size(), 2U);
  EXPECT_FALSE(memory.record().from_zero);
  EXPECT_EQ(memory.record().blocks[0].base_version, 2U);  // of the old one
  EXPECT_EQ(memory.record().blocks[1].base_version, 3U);
}

// A device that was away gets model and mean as a snapshot, and follows by records from there: the same bits as of one
// that had every record. Without the mean the next record leads elsewhere.
TEST(AggregatorMemory, RecordsFollowASnapshot) {
  for (const CorrectionForm form : {CorrectionForm::kMemory, CorrectionForm::kUnbiased}) {
    const RunParameters p = memory_parameters(form);
    Memory memory(p);
    for (uint32_t version = 0; version < 3; ++version) {
      for (uint32_t device = version % 2; device < p.trigger->device_count; ++device) {
        ASSERT_NO_FATAL_FAILURE(memory.add(device, memory.version(), 3));
      }
      ASSERT_NO_FATAL_FAILURE(memory.close());
    }
    TestReplica late(p), forgetful(p);
    take_snapshot(memory.replica(), true, &late);
    take_snapshot(memory.replica(), false, &forgetful);
    EXPECT_EQ(late.replica.digest(), memory.replica().digest());
    EXPECT_NE(forgetful.replica.digest(), memory.replica().digest());
    for (uint32_t round = 0; round < 3; ++round) {
      ASSERT_NO_FATAL_FAILURE(memory.add(round, memory.version(), 1));
      ASSERT_NO_FATAL_FAILURE(memory.close());
      ASSERT_FALSE(memory.record().from_zero);
      ASSERT_FALSE(memory.record().blocks.empty());  // not dense: that would need no snapshot
      for (TestReplica* replica : {&late, &forgetful}) {
        ASSERT_EQ(apply_record(p, memory.record(), replica->replica, replica->arena), Status::kOk);
      }
      EXPECT_EQ(late.replica.version(), memory.version());
      EXPECT_EQ(late.replica.digest(), memory.replica().digest());
      EXPECT_NE(forgetful.replica.digest(), memory.replica().digest());
    }
  }
}

TEST(AggregatorMemory, ALongRecordIsDense) {
  RunParameters p = memory_parameters(CorrectionForm::kMemory);
  p.local->group_count = 0;
  p.local->direction_count = 16;
  Memory memory(p);
  for (uint32_t device = 0; device < p.trigger->device_count; ++device) {
    ASSERT_NO_FATAL_FAILURE(memory.add(device, 0, 3));
  }
  ASSERT_NO_FATAL_FAILURE(memory.close());  // 4 x 48 coefficients for 2 x 32 values
  EXPECT_TRUE(memory.record().blocks.empty());
  EXPECT_FALSE(memory.record().mean.empty());
}

// The mean has no drift: what is taken out is what was put in.
TEST(AggregatorMemory, ForgetsWhoLeft) {
  const RunParameters p = memory_parameters(CorrectionForm::kMemory);
  Memory memory(p);
  for (uint32_t device = 0; device < p.trigger->device_count; ++device) {
    ASSERT_NO_FATAL_FAILURE(memory.add(device, 0, 3));
  }
  ASSERT_NO_FATAL_FAILURE(memory.close());
  EXPECT_EQ(memory.rule().stamp(3), 0U);
  memory.fleet().revoke(3);
  ASSERT_NO_FATAL_FAILURE(memory.add(0, 1, 3));
  VersionRecord record;
  ASSERT_EQ(memory.rule().finish(&record), Status::kOk);
  EXPECT_EQ(record.weight_total, 3U);
  EXPECT_THAT(record.forgotten, testing::ElementsAre(3));
}

TEST(AggregatorMemory, ForgetsWhatIsTooOld) {
  RunParameters p = memory_parameters(CorrectionForm::kMemory);
  p.local->memory_age_max = 5;
  Memory memory(p);
  for (uint32_t device = 0; device < p.trigger->device_count; ++device) {
    ASSERT_NO_FATAL_FAILURE(memory.add(device, 0, 3));
  }
  ASSERT_NO_FATAL_FAILURE(memory.close());
  VersionRecord record;
  for (uint32_t version = 1; version < 6; ++version) {
    for (uint32_t device = 0; device < 3; ++device) {
      ASSERT_NO_FATAL_FAILURE(memory.add(device, version, 3));
    }
    ASSERT_EQ(memory.rule().finish(&record), Status::kOk);
    if (version < 5) {
      ASSERT_NO_FATAL_FAILURE(memory.close());
    }
  }
  EXPECT_THAT(record.forgotten, testing::ElementsAre(3));  // stamp 0 at version 6
  EXPECT_EQ(record.weight_total, 4U);
  EXPECT_EQ(memory.rule().stamp(3), 0U);
  ASSERT_EQ(apply_record(p, record, memory.replica(), memory.arena()), Status::kOk);
  ASSERT_EQ(memory.rule().follow(record), Status::kOk);
  EXPECT_EQ(memory.rule().stamp(3), std::nullopt);
  EXPECT_EQ(memory.rule().stamp(2), 5U);
}

TEST(AggregatorMemory, RefusesAnUpdateThatIsNotNewer) {
  const RunParameters p = memory_parameters(CorrectionForm::kMemory);
  Memory memory(p);
  ASSERT_NO_FATAL_FAILURE(memory.add(1, 0, 3));
  const std::vector<Real> values(12, 1);
  EXPECT_EQ(memory.rule().check(memory.input(1, 0, 3, values)), Status::kProtocolError);
  ASSERT_NO_FATAL_FAILURE(memory.close());
  ASSERT_NO_FATAL_FAILURE(memory.add(1, 1, 3));
  EXPECT_EQ(memory.rule().add(memory.input(1, 0, 3, values)), Status::kProtocolError);
  EXPECT_EQ(memory.rule().check(memory.input(2, 0, 3, values)), Status::kOk);
  EXPECT_EQ(memory.rule().check(memory.input(2, 0, 2, values)), Status::kInvalidArgument);
  EXPECT_EQ(memory.rule().check(memory.input(2, 0, 3, std::vector<Real>(12, 500))), Status::kOutOfRange);
}

// A memory that weighs by samples knows so many devices, and one that is heard again takes no other's place.
TEST(AggregatorMemory, CountsADeviceThatIsHeardAgainOnce) {
  constexpr uint32_t kHeard = kKeptUpdateCountMax - 1;
  Memory memory(weighed_parameters(CorrectionForm::kMemory));
  StateArchive out;
  uint32_t weight_total = kHeard;
  out.values(weight_total);
  std::map<uint32_t, uint32_t> stamps;
  for (uint32_t device = 0; device < kHeard; ++device) {
    stamps[device] = 0;
  }
  out.map(stamps, [&out](uint32_t& stamp) {
    uint32_t owner = 0;
    uint32_t samples = 1;
    std::vector<int64_t> shares(1);
    out.values(stamp, owner, samples);
    out.numbers(shares);
  });
  std::vector<int64_t> h(memory.replica().shape().size());
  out.numbers(h);
  const std::vector<uint8_t> bytes = out.take_bytes();
  StateArchive in(bytes);
  memory.rule().exchange(in);
  ASSERT_TRUE(in.is_sound() && in.is_at_end());
  const std::vector<Real> values(12, 1);
  const auto of = [&](uint32_t device) {
    FoldInput input = memory.input(0, 1, 3, values);
    input.device = device;
    return input;
  };
  EXPECT_EQ(memory.rule().add(of(0)), Status::kOk);
  EXPECT_EQ(memory.rule().add(of(kHeard)), Status::kOk) << "there is room for one more";
  EXPECT_EQ(memory.rule().check(of(kHeard + 1)), Status::kOutOfRange);
  EXPECT_EQ(memory.rule().check(of(1)), Status::kOk);
}

// With weights that may change an update must fit alone: one of 32 samples that the other's 65,535 outweigh today may
// be alone tomorrow.
TEST(AggregatorMemory, RefusesAnUpdateThatFitsByItsWeightOnly) {
  Memory memory(weighed_parameters(CorrectionForm::kMemory));
  memory.set_samples({65535, 32, 1, 1});
  ASSERT_NO_FATAL_FAILURE(memory.add(0, 0, 3));
  const auto values = [&](Real each) {  // so that their terms of one entry have one sign
    std::vector<Real> u(memory.replica().shape().size());
    std::vector<Real> s(12);
    for (uint32_t q = 0; q < 12; ++q) {
      fill_direction(direction_spec(weighed_parameters(CorrectionForm::kMemory), 0, 0), memory.replica().shape(), q / 4,
                     q % 4, u.data());
      s[q] = u[0] > 0 ? each : -each;
    }
    return s;
  };
  EXPECT_EQ(memory.rule().check(memory.input(1, 0, 3, values(30))), Status::kOk);          // 12 * 30 / 3 below 2^7
  EXPECT_EQ(memory.rule().check(memory.input(1, 0, 3, values(33))), Status::kOutOfRange);  // 12 * 33 / 3 above
}

// A step that fails leaves the model; the updates count all the same.
TEST(AggregatorMemory, StandingStillKeepsTheModelAndCountsTheUpdates) {
  const RunParameters p = memory_parameters(CorrectionForm::kMemory);
  Memory memory(p);
  ASSERT_NO_FATAL_FAILURE(memory.add(1, 0, 3));
  const std::vector<Real> model(memory.replica().model(), memory.replica().model() + p.model->shape.size());
  const VersionRecord record = memory.rule().stand_still();
  EXPECT_EQ(record.step_scale, 0);
  ASSERT_EQ(apply_record(p, record, memory.replica(), memory.arena()), Status::kOk);
  ASSERT_EQ(memory.rule().follow(record), Status::kOk);
  EXPECT_EQ(memory.rule().stamp(1), 0U);
  for (size_t e = 0; e < model.size(); ++e) {
    EXPECT_NEAR(memory.replica().model()[e], model[e], 3e-7);
  }
}

}  // namespace
}  // namespace gradstream
