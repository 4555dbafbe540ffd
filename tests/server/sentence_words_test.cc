// Words of sentences for people.
#include "server/watch/sentence_words.h"

#include <gtest/gtest.h>

namespace gradstream {
namespace {

TEST(SentenceWords, PeopleReadThem) {
  EXPECT_EQ(duration_text(5040), "5.0 s");
  EXPECT_EQ(duration_text(45'000), "45 s");
  EXPECT_EQ(duration_text(179'000), "2 min");
  EXPECT_EQ(duration_text(7'200'000), "2 h");
  EXPECT_EQ(duration_text(5 * 86'400'000ULL), "5 days");
  EXPECT_EQ(size_text(900), "900 bytes");
  EXPECT_EQ(size_text(120ULL << 20), "120 MiB");
  EXPECT_EQ(lacks_text("problem:logistic,samples:40"), "the problem logistic and 40 samples");
  EXPECT_EQ(shell_word("pump-12"), "pump-12");
  EXPECT_EQ(shell_word("a b"), "'a b'");
  EXPECT_EQ(shell_word(""), "''");
  EXPECT_EQ(device_command("disable", "-a b"), "gradstream device disable -- '-a b'");
  EXPECT_EQ(number_of(3.14159), "3.142");
}

TEST(SentenceWords, RefusedConnectionsHaveARemedyEach) {
  EXPECT_EQ(refusals_remedy("inactive_identities"), "Enable the devices, if they are to take part.");
  EXPECT_EQ(refusals_remedy("of no counter"), "Look at the server's log, which names the peers and the cause.");
}

TEST(SentenceWords, AClauseBecomesASentence) {
  EXPECT_EQ(sentence_of("the disk is full"), "The disk is full.");
  EXPECT_EQ(sentence_of("Done."), "Done.");
  EXPECT_EQ(sentence_of(""), "");
}

}  // namespace
}  // namespace gradstream
