#include "server/watch/metrics.h"

#include <array>
#include <charconv>
#include <fstream>

#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

namespace gradstream {

std::string metric_text(double value) {
  std::array<char, 32> text = {};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

void add_process(Metrics* metrics, uint64_t started_ms) {
  metrics->gauge("process_start_time_seconds", "Start of the process since the epoch.",
                 static_cast<double>(started_ms) / 1000);
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  metrics->begin("process_cpu_seconds_total", "counter", "Processor time, user and system.");
  metrics->sample("process_cpu_seconds_total", "", metric_text(seconds(usage.ru_utime) + seconds(usage.ru_stime)));
  uint64_t pages = 0;
  uint64_t resident_pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident_pages;
  metrics->gauge("process_resident_memory_bytes", "Resident memory.",
                 static_cast<double>(resident_pages) * static_cast<double>(sysconf(_SC_PAGESIZE)));
#ifdef __GLIBC__  // other C libraries do not say
  const struct mallinfo2 heap = mallinfo2();
  metrics->gauge("gradstream_heap_bytes", "Allocated by malloc and not freed, its own overhead included.",
                 static_cast<double>(heap.uordblks) + static_cast<double>(heap.hblkhd));
#endif
}

void add_http(Metrics* metrics, const HttpCounters& http) {
  metrics->counter("gradstream_http_requests_total", "Requests to this port that were answered.", http.requests);
  const char* const refusals = "gradstream_http_refusals_total";
  metrics->begin(refusals, "counter", "Requests to this port, and connections, that were refused.");
  for (size_t i = 0; i < kHttpRefusalCount; ++i) {
    metrics->sample(refusals, std::string("reason=\"") + http_refusal_text(static_cast<HttpRefusal>(i)) + "\"",
                    std::to_string(http.refusals[i]));
  }
}

}  // namespace gradstream
