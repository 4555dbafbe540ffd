// Lines of a report: their form, and a CRC over what was said before.
#include "firmware/report_lines.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/base/crc32c.h"

namespace gradstream {
namespace {

std::vector<std::string> lines;

void keep(const char* line) { lines.emplace_back(line); }

TEST(ReportLines, SaysNamesAndValuesAndTheirCrc) {
  lines.clear();
  ReportLines report(keep);
  report.number("form", 1);
  report.number("nothing", 0);
  report.number("most", UINT64_MAX);
  report.hex("digest", 0x0123456789abcdef, 16);
  report.hex("cpuid", 0x410fc241, 8);
  report.none("flash");
  report.end();
  const std::vector<std::string> wanted = {
      "report form=1",         "report nothing=0", "report most=18446744073709551615", "report digest=0123456789abcdef",
      "report cpuid=410fc241", "report flash=none"};
  ASSERT_EQ(lines.size(), wanted.size() + 1);
  uint32_t crc = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(lines[i], wanted[i]);
    const std::string ended = lines[i] + "\n";
    crc = crc32c(crc, reinterpret_cast<const uint8_t*>(ended.data()), ended.size());
  }
  char end[40];
  std::snprintf(end, sizeof(end), "report end crc=%08x", crc);
  EXPECT_EQ(lines.back(), end);
}

TEST(ReportLines, CutsALineThatIsTooLong) {
  lines.clear();
  ReportLines report(keep);
  report.text("long", std::string(200, 'x').c_str());
  EXPECT_EQ(lines[0].size(), ReportLines::kLineSizeMax);
}

}  // namespace
}  // namespace gradstream
