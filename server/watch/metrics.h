// Prometheus' text form, version 0.0.4: what a server and a node of a cluster write alike.
#ifndef GRADSTREAM_SERVER_WATCH_METRICS_H_
#define GRADSTREAM_SERVER_WATCH_METRICS_H_

#include <cstdint>
#include <string>
#include <utility>

#include "server/watch/http.h"

namespace gradstream {

// With as many digits as read back to the same.
std::string metric_text(double value);

// One line a sample, HELP and TYPE before the first of a metric.
class Metrics {
 public:
  void begin(const std::string& name, const char* type, const char* help) {
    text_ += "# HELP " + name + " " + help + "\n# TYPE " + name + " " + type + "\n";
  }
  void sample(const std::string& name, const std::string& labels, const std::string& value) {
    text_ += name + (labels.empty() ? "" : "{" + labels + "}") + " " + value + "\n";
  }
  void gauge(const std::string& name, const char* help, double value) {
    begin(name, "gauge", help);
    sample(name, "", metric_text(value));
  }
  void counter(const std::string& name, const char* help, uint64_t value) {
    begin(name, "counter", help);
    sample(name, "", std::to_string(value));
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

// Of this process, under the names that every Prometheus client library uses. started_ms: since the epoch.
void add_process(Metrics* metrics, uint64_t started_ms);
// Of the HTTP port.
void add_http(Metrics* metrics, const HttpCounters& http);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_WATCH_METRICS_H_
