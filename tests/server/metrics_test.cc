#include "server/watch/metrics.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gradstream {
namespace {

using testing::HasSubstr;

TEST(Metrics, ASampleHasItsHelpAndItsType) {
  Metrics metrics;
  metrics.gauge("a_gauge", "What it is.", 0.25);
  metrics.counter("a_total", "How many.", 3);
  metrics.begin("a_state", "gauge", "Which.");
  metrics.sample("a_state", "state=\"on\"", "1");
  EXPECT_EQ(metrics.take(),
            "# HELP a_gauge What it is.\n# TYPE a_gauge gauge\na_gauge 0.25\n"
            "# HELP a_total How many.\n# TYPE a_total counter\na_total 3\n"
            "# HELP a_state Which.\n# TYPE a_state gauge\na_state{state=\"on\"} 1\n");
}

TEST(Metrics, ProcessAndPortAreTold) {
  HttpCounters http;
  http.requests = 5;
  http.refusals[static_cast<size_t>(HttpRefusal::kToken)] = 2;
  Metrics metrics;
  add_process(&metrics, 1'500);
  add_http(&metrics, http);
  const std::string text = metrics.take();
  EXPECT_THAT(text, HasSubstr("\nprocess_start_time_seconds 1.5\n"));
  EXPECT_THAT(text, HasSubstr("\nprocess_cpu_seconds_total "));
  EXPECT_THAT(text, HasSubstr("\ngradstream_http_requests_total 5\n"));
  EXPECT_THAT(text, HasSubstr("\ngradstream_http_refusals_total{reason=\"token\"} 2\n"));
}

}  // namespace
}  // namespace gradstream
