// The parts of a device's digest: the digest that boards/reports names for this release, in the memory that is named.
#include "firmware/digest_parts.h"

#include <fstream>
#include <memory>
#include <set>
#include <string>

#include <gtest/gtest.h>

namespace gradstream {
namespace {

std::set<std::string> names;

TEST(DigestParts, HaveTheDigestOfTheRelease) {
  names.clear();
  const auto work = std::make_unique<DigestWork>([](const char* name, uint64_t) { names.insert(name); });
  hash_device_parts(*work, [] {});
  EXPECT_GE(names.size(), 18u);
  std::ifstream file(GS_SOURCE_DIR "/boards/reports/digests.txt");
  std::string found;
  char text[17];
  std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(work->total()));
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(GS_VERSION " ", 0) == 0) {
      found = line.substr(line.find(' ') + 1);
    }
  }
  EXPECT_EQ(found, text) << "boards/reports/digests.txt has another digest of " GS_VERSION;
  EXPECT_EQ(work->arena.free_size(), work->arena.size());
}

TEST(DigestParts, LeaveTheDevicesOwnPathOut) {
  const auto work = std::make_unique<DigestWork>(nullptr);
  const uint64_t before = work->total();
  hash_local_steps(*work);
  EXPECT_EQ(work->total(), before);
  hash_numbers(*work);
  EXPECT_NE(work->total(), before);
}

}  // namespace
}  // namespace gradstream
