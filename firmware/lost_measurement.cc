// log_lost_measurement(). A file of its own, so that only images whose losses are measured link it.
#include "firmware/line.h"
#include "include/gradstream/problem.h"
#include "runtime/link/port.h"

namespace gradstream {
namespace {

constexpr char kLostRemedy[] = "look at the apparatus, or raise measure_timeout_ms; the device asks for a task again";

}  // namespace

void log_lost_measurement(const Measurement& measurement) {
  ConsoleLine line("measurement_lost");
  line.word("problem", measurement.options().name).number("question", measurement.question());
  line.number("waited_ms", measurement.waited_ms()).number("limit_ms", measurement.timeout_ms());
  port_log_line(line.quoted("remedy", kLostRemedy).c_str());
}

}  // namespace gradstream
