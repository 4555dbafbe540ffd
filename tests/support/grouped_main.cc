// main() of tests that share a program: --unit=a_test.cc runs those that stand in that file, without it all run.
#include <cstdio>
#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace {

// The tests of one file as GoogleTest's filter. Empty: there are none, or another file has one of the same name.
std::string filter_of(std::string_view unit) {
  const std::string ending = "/" + std::string(unit);
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  std::string own = ":";
  std::string others = ":";
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const testing::TestSuite& suite = *all.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j) {
      const testing::TestInfo& test = *suite.GetTestInfo(j);
      const bool is_own = std::string_view(test.file()).ends_with(ending);
      (is_own ? own : others).append(suite.name()).append(".").append(test.name()).append(":");
    }
  }
  for (size_t at = 1; at < own.size(); at = own.find(':', at) + 1) {
    const std::string name = own.substr(at - 1, own.find(':', at) - at + 2);
    if (others.find(name) != std::string::npos) {
      std::fprintf(stderr, "%s: another file of this program has a test named %s too; rename one of both\n",
                   ending.c_str() + 1, name.c_str());
      return {};
    }
  }
  return own.size() > 1 ? own.substr(1, own.size() - 2) : std::string();
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  constexpr std::string_view kUnit = "--unit=";
  // A death test starts the program once more, with a filter of its own.
  if (argc == 2 && std::string_view(argv[1]).starts_with(kUnit) && testing::GTEST_FLAG(filter) == "*") {
    const std::string filter = filter_of(std::string_view(argv[1]).substr(kUnit.size()));
    if (filter.empty()) {
      std::fprintf(stderr, "%s: this program has no test of that file\n", argv[1]);
      return 1;
    }
    testing::GTEST_FLAG(filter) = filter;
  }
  return RUN_ALL_TESTS();
}
