#include "server/run/names.h"

#include <set>
#include <type_traits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/run/visit_keys.h"

namespace gradstream {
namespace {

TEST(Names, EveryWordOfEveryEnumStandsForOneValueAndReadsBack) {
  const RunParameters parameters;
  size_t enums = 0;
  visit_fields(parameters, [&](const char* key, const auto& field) {
    using Field = std::decay_t<decltype(field)>;
    if constexpr (std::is_enum_v<Field>) {
      ++enums;
      std::set<std::string> words;
      std::set<Field> values;
      const auto other = static_cast<Field>(250);
      for (const auto& [word, value] : names_of<Field>()) {
        EXPECT_TRUE(words.insert(word).second) << key << ' ' << word;
        EXPECT_TRUE(values.insert(value).second) << key << ' ' << word;
        EXPECT_STREQ(name_of(value), word) << key;
        EXPECT_EQ(parse_name(word, other), value) << key << ' ' << word;
      }
      EXPECT_NE(parse_name(name_of(field), other), other) << key << ": the default has a word, if only none";
      EXPECT_STREQ(name_of(other), "none") << key;
      EXPECT_EQ(parse_name("no such word", other), other) << key;
    }
  });
  EXPECT_GE(enums, 22U);
}

TEST(Names, AWordIsReadAsAWhole) {
  static_assert(parse_name("qr", RetractionKind::kDefault) == RetractionKind::kQr);
  EXPECT_EQ(parse_name("q", RetractionKind::kDefault), RetractionKind::kDefault);
  EXPECT_EQ(parse_name("qrs", RetractionKind::kDefault), RetractionKind::kDefault);
  EXPECT_EQ(parse_name("", RetractionKind::kDefault), RetractionKind::kDefault);
}

TEST(Names, AProblemThatTheLibraryLacksComesWithTheNearestOne) {
  EXPECT_EQ(builtin_problem_hint("pca"),
            "no built-in problem has the name pca, the nearest one is kpca: the devices must bring it");
  EXPECT_THAT(builtin_problem_hint("logistics"), testing::HasSubstr("the nearest one is logistic"));
  EXPECT_EQ(builtin_problem_hint("pump_wear"), "no built-in problem has the name pump_wear: the devices must bring it");
  for (const char* name : {"", "kpca", "brockett", "spd_mean", "multitask", "hyperbolic", "least_squares", "logistic",
                           "completion", "perceptron", "lenet"}) {
    EXPECT_EQ(builtin_problem_hint(name), "") << name;
  }
}

TEST(Names, AManifoldsVariantsAreListed) {
  EXPECT_THAT(variants_of(ManifoldId::kStiefel), testing::StartsWith("polar with projection, "));
  EXPECT_THAT(variants_of(ManifoldId::kStiefel), testing::HasSubstr("qr with projection"));
  EXPECT_EQ(variants_of(ManifoldId::kNone), "");
}

}  // namespace
}  // namespace gradstream
