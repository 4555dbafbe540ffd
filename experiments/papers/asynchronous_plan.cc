#include "experiments/papers/asynchronous_plan.h"

#include <algorithm>
#include <iterator>

namespace gradstream {

const AsyncRule& async_rule(const std::string& name) {
  return *std::find_if(std::begin(kAsyncRules), std::end(kAsyncRules),
                       [&](const AsyncRule& rule) { return rule.name == name; });
}

uint32_t first_async_seed(const Request& request) { return (request.seed - 1) * kAsyncSeedCount + 1; }

std::string async_rule_key(const AsyncSpeeds& speeds, const std::string& rule, uint32_t seed) {
  return std::string("rules/") + speeds.name + "/" + rule + "/s" + std::to_string(seed);
}

std::string async_stepwise_key(const AsyncPlan& plan, const AsyncSpeeds& speeds, const char* rule, uint32_t seed) {
  return std::string(plan.prefix) + "stepwise/" + speeds.name + "/" + rule + "/s" + std::to_string(seed);
}
std::string async_method_key(const AsyncPlan& plan, const AsyncSpeeds& speeds, const std::string& method) {
  return std::string(plan.prefix) + "curve/" + speeds.name + "/" + method;
}
std::string async_connection_key(const AsyncPlan& plan, bool by_curve) {
  return std::string(plan.prefix) + "connection/" + (by_curve ? "curve" : "line");
}

}  // namespace gradstream
