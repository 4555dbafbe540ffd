// What the tests of a run's checks share: good runs, spoilt in one way, and the beginning of the sentence that must
// refuse each.
#ifndef GRADSTREAM_TESTS_SUPPORT_REFUSED_PARAMETERS_H_
#define GRADSTREAM_TESTS_SUPPORT_REFUSED_PARAMETERS_H_

#include <algorithm>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/run/check_parameters.h"
#include "server/run/key_table.h"
#include "tests/support/server_support.h"

namespace gradstream {

struct RefusedCase {
  const char* sentence;  // its begin: the keys, and where it matters what is said of them
  void (*spoil)(RunParameters*);
};

// A sentence begins with keys that the run has, so that people find what to change.
inline void expect_known_keys(const std::string& sentence) {
  const std::vector<KeyRow> rows = key_rows();
  std::istringstream keys(sentence.substr(0, sentence.find(':')));
  std::string key;
  while (std::getline(keys >> std::ws, key, ',')) {
    EXPECT_TRUE(std::any_of(rows.begin(), rows.end(), [&key](const KeyRow& row) { return row.name == key; }))
        << key << " is no key: " << sentence;
  }
}

inline void expect_refused(const RunParameters& good, std::span<const RefusedCase> cases) {
  GS_ASSERT(!check_parameters(good));
  for (const RefusedCase& spoilt : cases) {
    RunParameters p = good;
    spoilt.spoil(&p);
    const std::string sentence = check_parameters(p).sentence;
    EXPECT_THAT(sentence, testing::StartsWith(spoilt.sentence));
    expect_known_keys(sentence);
  }
}

}  // namespace gradstream

#endif  // GRADSTREAM_TESTS_SUPPORT_REFUSED_PARAMETERS_H_
