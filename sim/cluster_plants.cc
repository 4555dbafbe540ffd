#include "sim/cluster_plants.h"

#include <algorithm>
#include <vector>

namespace gradstream {
namespace {

// Parts of the sentences, without the names of nodes, devices and versions.
constexpr std::string_view kTaskTooEarly = "a Task left before its record was durable";
constexpr std::string_view kUpdateElsewhere = "an update was committed into another version than it was judged for";
constexpr std::string_view kTaskElsewhere = "a task was committed into another version than it was issued for";
constexpr std::string_view kVersionNotOpen = "is committed for a version that nobody has published";
constexpr std::string_view kOtherCounts = "counts other updates than its rows accept";
constexpr std::string_view kNotOpen = "judges a task that is not open";
constexpr std::string_view kOtherVersion = "is not what one server makes of its updates";
constexpr std::string_view kOtherTime = "a task was issued at another time than the engine's";
constexpr std::string_view kNoTime = "an honest update was refused for its time";
constexpr std::string_view kOtherHolder = "publishes a version, and the lease is held by";
constexpr std::string_view kLost = "the engine has lost";
constexpr std::string_view kRestored = "the engine lacks what it had told this node is committed";
constexpr std::string_view kUnknownTask = "an Ack does not know a task of the journal";

std::vector<std::string_view> findings_of(ClusterPlant plant) {
  switch (plant) {
    case ClusterPlant::kNone:
      break;
    case ClusterPlant::kAckBeforeCommit:
      return {kTaskTooEarly};
    case ClusterPlant::kNoCutCheck:
      return {kUpdateElsewhere, kTaskElsewhere, kVersionNotOpen};
    case ClusterPlant::kNoResolve:
      // It is sent once more, into the version that is open by then.
      return {kOtherCounts, kNotOpen, kUpdateElsewhere, kTaskElsewhere, kVersionNotOpen};
    case ClusterPlant::kOtherSum:
      return {kOtherVersion};
    case ClusterPlant::kOwnClock:
      return {kOtherTime, kNoTime};
    case ClusterPlant::kStaleTerm:
      return {kOtherHolder};
    case ClusterPlant::kAsyncFailover:
      // A row, a version, or a sum: which one comes to light first is chance, and whether a node notices first.
      return {kLost, kUnknownTask, kOtherVersion, kRestored};
  }
  return {};
}

}  // namespace

bool is_finding(ClusterPlant plant, std::string_view sentence) {
  const std::vector<std::string_view> findings = findings_of(plant);
  return std::any_of(findings.begin(), findings.end(),
                     [&sentence](std::string_view part) { return sentence.find(part) != std::string_view::npos; });
}

}  // namespace gradstream
