#include "server/run/canonical_text.h"

#include <algorithm>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/run/names.h"
#include "server/run/run_core.h"
#include "server/run/visit_keys.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

TEST(CanonicalText, NamesEveryFieldOnce) {
  const std::string text = canonical_text(scalar_parameters());
  EXPECT_THAT(text, testing::HasSubstr("manifold = stiefel\n"));
  EXPECT_THAT(text, testing::HasSubstr("estimator = projection_one_sided\n"));
  EXPECT_THAT(text, testing::HasSubstr("step_size = 0.05\n"));
  EXPECT_THAT(text, testing::HasSubstr("correction_form = local\n"));
  std::set<std::string> keys;
  size_t fields = 0;
  RunParameters p;
  visit_fields(p, [&](const char* key, const auto&) {
    keys.insert(key);
    ++fields;
  });
  EXPECT_EQ(keys.size(), fields);
  EXPECT_EQ(static_cast<size_t>(std::count(text.begin(), text.end(), '\n')), fields);
}

struct Change {
  size_t index;
  size_t seen = 0;
  void operator()(const char*, std::string& field) {
    bump([&] { field += "x"; });
  }
  void operator()(const char*, bool& field) {
    bump([&] { field = !field; });
  }
  void operator()(const char*, uint32_t& field) {
    bump([&] { ++field; });
  }
  void operator()(const char*, float& field) {
    bump([&] { field += 0.25F; });
  }
  template <typename Enum>
  void operator()(const char*, Enum& field) {
    bump([&] {
      field = names_of<Enum>().front().value == field ? names_of<Enum>().back().value : names_of<Enum>().front().value;
    });
  }
  template <typename Do>
  void bump(Do change) {
    if (seen++ == index) {
      change();
    }
  }
};

// FNV-1a, as it is published.
uint64_t digest_of(const std::string& bytes) {
  uint64_t digest = 0xcbf29ce484222325ULL;
  for (const char byte : bytes) {
    digest = (digest ^ static_cast<uint8_t>(byte)) * 0x100000001b3ULL;
  }
  return digest;
}

TEST(CanonicalText, EveryFieldCountsForTheDigestAndIsNamed) {
  const RunParameters p = scalar_parameters();
  size_t fields = 0;
  visit_fields(p, [&](const char*, const auto&) { ++fields; });
  for (size_t index = 0; index < fields; ++index) {
    RunParameters changed = p;
    Change change{index};
    visit_fields(changed, change);
    EXPECT_NE(parameters_digest(changed, 0), parameters_digest(p, 0)) << index;
    EXPECT_EQ(differing_keys(canonical_text(p), canonical_text(changed)).size(), 1U) << index;
  }
  EXPECT_THAT(differing_keys("a = 1\nb = 2\n", "b = 2\nc = 3\n"), testing::ElementsAre("a", "c"));
}

// A run that was made before runs had a nonce is the run that its devices know.
TEST(CanonicalText, TheNonceIsPartOfTheDigestAndNoneChangesNothing) {
  RunParameters p;
  EXPECT_EQ(parameters_digest(p, 0), 0xcbf29ce484222325ULL) << "FNV-1a of no bytes";
  p.seed += 1;
  const uint64_t plain = parameters_digest(p, 0);
  EXPECT_EQ(plain, digest_of("seed = " + std::to_string(p.seed) + "\n"));
  EXPECT_EQ(parameters_digest(p, 0x0807060504030201),
            digest_of("seed = " + std::to_string(p.seed) + "\n\1\2\3\4\5\6\7\10"));
}

// A run that was stored before a field came to be goes on under a release that has it, as long as it is at its default.
TEST(CanonicalText, AStoredTextWithoutANewKeyMeansItsDefault) {
  RunParameters p = scalar_parameters();
  std::string stored = canonical_text(p);
  const std::string line = "error_feedback = false\n";
  stored.erase(stored.find(line), line.size());
  EXPECT_THAT(differing_keys(stored, canonical_text(p)), testing::IsEmpty());
  p.wire->error_feedback = true;
  EXPECT_THAT(differing_keys(stored, canonical_text(p)), testing::ElementsAre("error_feedback"));
}

}  // namespace
}  // namespace gradstream
