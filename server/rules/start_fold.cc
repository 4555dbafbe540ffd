// The folds of START and TRIALS (server/run/run_stages.h): from which step a run with step_size "auto" begins.
//
//   START   devices upload what they would of a round, without moving: d, the mean direction at the model
//   TRIALS  devices answer with f(P(X - R / |d| 2^-q d)) - f(X), q from 0 to 31
//
// The rule is server/rules/step_rule.h, what records keep of it server/rules/step_decision.h.
#include "runtime/base/no_contraction.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <map>

#include "runtime/base/products.h"
#include "server/rules/stage_fold.h"
#include "server/rules/step_decision.h"
#include "server/run/run_core.h"

namespace gradstream {
namespace {

template <typename Word>
uint64_t digest_word(uint64_t digest, Word word) {
  for (size_t byte = 0; byte < sizeof(Word); ++byte) {
    digest = digest_byte(digest, static_cast<uint8_t>(word >> (8 * byte)));
  }
  return digest;
}

std::string number(double value) {
  std::array<char, 32> text = {};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::general, 6).ptr;
  return {text.data(), end};
}

StepDecision decision_of(const StageContext& context) {
  StepDecision decision;
  const Status status = decode_decision(context.decision, &decision);
  GS_ASSERT(status == Status::kOk);  // the ledger has followed it
  return decision;
}

class StartFold : public StageFold {
 public:
  explicit StartFold(const StageContext& context) : context_(context) {}

  // The uploads are the rule's.
  StageFault check(const StageAnswer&) const override { return {gs_Reason_REASON_WRONG_SHAPE}; }
  void add(const StageAnswer&) override {}

  StageDecision close(const Aggregator& rule) const override {
    StageDecision out;
    VersionRecord record;
    out.status = rule.finish(&record);
    const std::vector<Real>& d = record.mean_direction;
    if (!d.empty()) {
      out.status = all_finite(d.size(), d.data()) ? Status::kOk : Status::kNotFinite;
    }
    if (out.status != Status::kOk || d.empty()) {
      return out;
    }
    const Shape shape = context_.parameters->model->shape;
    const StepDecision next =
        after_start(*context_.parameters, decision_of(context_), d, {context_.replica->model(), shape.size()});
    out.decision = encode_decision(next);
    out.direction = model_bytes(shape, d.data());
    out.notes = {{"direction", number(std::sqrt(next.square))}, {"longest", number(next.trial_length)}};
    return out;
  }
  // Scalars tell the slopes at the model. A tangent stream holds the step
  // inside its values: it is then 1.
  Real step_size() const override {
    return context_.parameters->local->solver == SolverId::kProjection ? Real{0} : Real{1};
  }
  uint64_t digest() const override { return kDigestStart; }

 private:
  StageContext context_;
};

class TrialsFold : public StageFold {
 public:
  explicit TrialsFold(const StageContext& context) : context_(context), before_(decision_of(context)) {}

  StageFault check(const StageAnswer& answer) const override {
    const bool is_whole = answer.values.size() == kTrialCount * sizeof(float) && answer.weight > 0;
    return {is_whole ? gs_Reason_REASON_NONE : gs_Reason_REASON_WRONG_SHAPE};
  }
  void add(const StageAnswer& answer) override {
    TrialAnswer& own = answers_[answer.device];
    own.weight = answer.weight;
    for (size_t q = 0; q < kTrialCount; ++q) {
      uint32_t word = 0;
      for (size_t i = 0; i < sizeof(word); ++i) {
        word |= uint32_t{answer.values[q * sizeof(word) + i]} << (8 * i);
      }
      own.changes[q] = std::bit_cast<float>(word);
    }
  }

  StageDecision close(const Aggregator&) const override {
    std::vector<TrialAnswer> answers;  // in the order of enrolment indices
    for (const auto& [device, answer] : answers_) {
      answers.push_back(answer);
    }
    const StepDecision next = after_trials(*context_.parameters, before_, answers);
    StageDecision out;
    out.decision = encode_decision(next);
    const double best = next.best[next.draw_count - 1];
    out.notes.emplace_back("answers", std::to_string(answers.size()));
    out.notes.emplace_back("best", best > 0 ? number(best) : "none");
    if (next.state.first > 0) {
      out.notes.emplace_back("step", number(next.state.step));
    }
    return out;
  }
  Real step_size() const override { return static_cast<Real>(before_.trial_length); }
  uint64_t digest() const override {
    uint64_t digest = kDigestStart;
    for (const auto& [device, answer] : answers_) {
      digest = digest_word(digest_word(digest, device), std::bit_cast<uint64_t>(answer.weight));
      for (const float change : answer.changes) {
        digest = digest_word(digest, std::bit_cast<uint32_t>(change));
      }
    }
    return digest;
  }

 private:
  StageContext context_;
  StepDecision before_;
  std::map<uint32_t, TrialAnswer> answers_;  // by device
};

}  // namespace

std::unique_ptr<StageFold> make_start_fold(const StageContext& context) { return std::make_unique<StartFold>(context); }
std::unique_ptr<StageFold> make_trials_fold(const StageContext& context) {
  return std::make_unique<TrialsFold>(context);
}

}  // namespace gradstream
