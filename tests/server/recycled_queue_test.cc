// A queue in order, and the memory of its elements.
#include "server/base/recycled_queue.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace gradstream {
namespace {

TEST(RecycledQueue, GivesInOrderAndKeepsElements) {
  RecycledQueue<std::string> queue(2);
  for (int turn = 0; turn < 3; ++turn) {
    for (const char* const word : {"one", "two", "three"}) {
      queue.push(word);
    }
    EXPECT_EQ(queue.spare_count(), 0U);
    EXPECT_EQ(std::vector<std::string>(queue.begin(), queue.end()), (std::vector<std::string>{"one", "two", "three"}));
    for (const char* const word : {"one", "two", "three"}) {
      EXPECT_EQ(queue.front(), word);
      queue.pop();
    }
    EXPECT_TRUE(queue.empty());
    EXPECT_EQ(queue.spare_count(), 2U) << "no more than its limit";
  }
}

TEST(RecycledQueue, AnElementThatCameBackIsUsedAgain) {
  RecycledQueue<int> queue(1);
  queue.push(1);
  const int* const place = &queue.front();
  queue.pop();
  queue.push(2);
  EXPECT_EQ(&queue.front(), place);
  EXPECT_EQ(queue.front(), 2);
}

TEST(RecycledQueue, ValuesAreRemovedFromTheMiddle) {
  RecycledQueue<int> queue(4);
  for (int i = 0; i < 5; ++i) {
    queue.push(i);
  }
  queue.remove_if([](int value) { return value % 2 == 1; });
  EXPECT_EQ(std::vector<int>(queue.begin(), queue.end()), (std::vector<int>{0, 2, 4}));
  EXPECT_EQ(queue.size(), 3U);
}

}  // namespace
}  // namespace gradstream
