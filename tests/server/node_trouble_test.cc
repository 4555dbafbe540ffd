#include "server/engine/node_trouble.h"

#include <string>

#include <gtest/gtest.h>

namespace gradstream {
namespace {

// What is wrong, and what to do: each trouble has words of its own.
TEST(NodeTrouble, HasASentenceForEachTrouble) {
  const std::string unfit = sentence_of(NodeTrouble::kUnfit);
  const std::string restored = sentence_of(NodeTrouble::kRestored);
  EXPECT_EQ(std::string(sentence_of(NodeTrouble::kNone)), "");
  EXPECT_NE(unfit.find("Install the newest release"), std::string::npos);
  EXPECT_NE(restored.find("restored to an earlier time"), std::string::npos);
  EXPECT_NE(restored.find("Bring back the newest state"), std::string::npos);
}

}  // namespace
}  // namespace gradstream
