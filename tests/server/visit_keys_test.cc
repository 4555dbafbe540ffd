// What a group says of its keys is what the checks keep: the ranges, and the sentences for people.
#include "server/run/visit_keys.h"

#include <cmath>
#include <limits>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>

#include <gtest/gtest.h>

#include "server/run/check_parameters.h"
#include "server/run/parts.h"
#include "server/run/run_core.h"
#include "server/run/step_keys.h"
#include "tests/support/refused_parameters.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

// A valid run that checks the range of a key: `where` as the key has it.
RunParameters run_where(std::string_view where) {
  RunParameters p = scalar_parameters();
  if (where == "manifold `fixed_rank`") {
    p.model->manifold = ManifoldId::kFixedRank;
    p.model->matrix = "40x40";
    p.model->rank = 2;
    p.model->shape = {};
    set_parts(&p);
  } else if (where == "solver `curve`") {
    p = asynchronous_parameters();
    p.local->solver = SolverId::kCurve;
    p.local->batch_mode = BatchMode::kCommon;
    p.model->manifold = ManifoldId::kEuclidean;
  } else if (where == "rule `barzilai_borwein`") {
    p = tangent_parameters();
    p.local->solver = SolverId::kSvrg;
    p.local->batch_mode = BatchMode::kAll;
    p.local->barzilai_borwein = BarzilaiBorwein::kFirst;
    p.steps->step_rule = StepRule::kBarzilaiBorwein;
    p.steps->step_decay = 0;
    p.steps->step_min = p.steps->step_max = 1;
  } else if (where == "solver `svrg`") {
    p = tangent_parameters();
    p.local->solver = SolverId::kSvrg;
    p.local->batch_mode = BatchMode::kAll;
  } else if (where == "a `server_step_cycle`") {
    p.steps.keys().server_step_cycle = 2;
    p.steps.keys().server_step_low = p.steps->server_step;
  } else if (where == "`scheme_1`") {
    p.local->correction_form = CorrectionForm::kNone;
    p.cohort->participation = Participation::kSchemeOne;
    p.cohort->cohort_size = 2;
  } else if (where == "`late` `weight`") {
    p.trigger->update_goal = 2;
    p.trigger->late = LatePolicy::kWeight;
  } else if (where == "a `delay_rule`") {
    p = asynchronous_parameters();
  } else if (where == "`batch_growth` above 0") {
    p.local->batch_mode = BatchMode::kCommon;
    p.local->batch_size = 1;
    p.local.keys().batch_growth = 1;
    p.local.keys().batch_size_max = 2;
  } else if (where == "rule `ortho_grad`") {
    p = asynchronous_parameters();
    p.delay->delay_rule = DelayRule::kOrthoGrad;
  }
  return p;
}

// Whether the sentence has the key before its colon; *is_alone: and no other.
bool names_key(const std::string& sentence, const std::string& key, bool* is_alone) {
  const std::string head = sentence.substr(0, sentence.find(':'));
  *is_alone = head == key;
  std::istringstream words(head);
  for (std::string word; std::getline(words >> std::ws, word, ',');) {
    if (word == key) {
      return true;
    }
  }
  return false;
}

// Sets the key to a value of its type that is nearest to `value`: the number, or a text of so many characters.
bool set_key(RunParameters* p, const std::string& name, double value) {
  bool is_set = false;
  visit_keys(*p, [&](const Key& key, auto& field) {
    using Field = std::remove_cvref_t<decltype(field)>;
    if (key.name != name) {
      return;
    }
    if constexpr (std::is_same_v<Field, std::string>) {
      field = std::string(static_cast<size_t>(value), 'x');
      is_set = true;
    } else if constexpr (std::is_arithmetic_v<Field> && !std::is_same_v<Field, bool>) {
      is_set = value >= 0 || !std::is_unsigned_v<Field>;
      field = is_set ? static_cast<Field>(value) : field;
    }
  });
  set_parts(p);
  return is_set;
}

void expect_taken(const Key& key, double value) {
  RunParameters p = run_where(key.range.where);
  ASSERT_TRUE(set_key(&p, key.name, value)) << key.name;
  bool is_alone = false;
  names_key(check_parameters(p).sentence, key.name, &is_alone);
  EXPECT_FALSE(is_alone) << key.name << " = " << value << ": " << check_parameters(p).sentence;
}

void expect_refused_value(const Key& key, double value) {
  RunParameters p = run_where(key.range.where);
  if (!set_key(&p, key.name, value)) {
    return;  // the key's type has no such value
  }
  bool is_alone = false;
  EXPECT_TRUE(names_key(check_parameters(p).sentence, key.name, &is_alone))
      << key.name << " = " << value << ": " << check_parameters(p).sentence;
}

TEST(VisitKeys, EveryRunThatARangeBelongsToIsValid) {
  std::set<std::string> wheres;
  RunParameters p;
  visit_keys(p, [&](const Key& key, const auto&) { wheres.insert(key.range.where); });
  EXPECT_EQ(wheres.size(), 13U) << "give run_where() the new one";
  for (const std::string& where : wheres) {
    EXPECT_EQ(check_parameters(run_where(where)).sentence, "") << where;
  }
}

TEST(VisitKeys, TheRangeOfAKeyIsWhatTheChecksKeep) {
  size_t ends = 0;
  const RunParameters p;
  visit_keys(p, [&](const Key& key, const auto& field) {
    const double step = std::is_same_v<std::remove_cvref_t<decltype(field)>, float> ? 0.001 : 1;
    const Range& range = key.range;
    if (std::isfinite(range.least)) {
      ++ends;
      expect_taken(key, range.is_above ? range.least + step : range.least);
      expect_refused_value(key, range.is_above && !key.has_zero_word() ? range.least : range.least - step);
    }
    if (std::isfinite(range.most)) {
      ++ends;
      expect_taken(key, range.is_below ? range.most - step : range.most);
      expect_refused_value(key, range.is_below ? range.most : range.most + step);
    }
  });
  EXPECT_GE(ends, 50U);
}

TEST(VisitKeys, EveryKeyHasOnePlainSentence) {
  const RunParameters p;
  visit_keys(p, [&](const Key& key, const auto&) {
    const std::string sentence = key.sentence;
    ASSERT_FALSE(sentence.empty()) << key.name;
    EXPECT_EQ(sentence.back(), '.') << key.name;
    EXPECT_EQ(sentence.find_first_of("|\n"), std::string::npos) << key.name;
    std::istringstream words(sentence);
    size_t count = 0;
    for (std::string word; words >> word;) {
      count = word.back() == '.' ? 0 : count + 1;
      EXPECT_LE(count, 25U) << key.name;
    }
  });
}

}  // namespace
}  // namespace gradstream
