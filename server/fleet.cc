#include "server/fleet.h"

#include <algorithm>

namespace gradstream {
namespace {

template <typename Enum>
bool has_bit(uint32_t bitmap, Enum value) {
  return (bitmap >> static_cast<uint32_t>(value) & 1U) != 0;
}

}  // namespace

void NameList::add(const std::string& name) {
  if (count_++ < kNameCountMax) {
    names_ += (names_.empty() ? "" : ",") + name;
  }
}

std::string NameList::text() const {
  if (count_ > kNameCountMax) {
    return names_ + ",+" + std::to_string(count_ - kNameCountMax);
  }
  return names_.empty() ? "none" : names_;
}

Fleet::Fleet(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    add(name);
  }
}

uint32_t Fleet::add(const std::string& name) {
  devices_.emplace_back().name = name;
  ++active_count_;
  return size() - 1;
}

void Fleet::revoke(uint32_t index) {
  GS_ASSERT(!at(index).is_revoked);
  at(index).is_revoked = true;
  --active_count_;
}

Device& Fleet::at(uint32_t index) {
  GS_ASSERT(contains(index));
  return devices_[index];
}

const Device& Fleet::at(uint32_t index) const {
  GS_ASSERT(contains(index));
  return devices_[index];
}

std::string Fleet::missing(uint32_t version) const {
  NameList names;
  for (const Device& device : devices_) {
    if (!device.is_revoked && device.answered_version != version) {
      names.add(device.name);
    }
  }
  return names.text();
}

SequenceState Fleet::sequence_state(uint32_t index, uint32_t task_sequence) const {
  const Device& device = at(index);
  if (task_sequence == 0 || task_sequence > device.task_sequence) {
    return SequenceState::kUnknown;
  }
  if (task_sequence == device.judged.task_sequence) {
    return SequenceState::kJudged;
  }
  return task_sequence == device.task_sequence && device.is_task_open ? SequenceState::kOpen
                                                                      : SequenceState::kSuperseded;
}

std::string lacking(const RunParameters& parameters, const gs_Capabilities& capabilities) {
  std::string list;
  const auto check = [&list](bool has, const char* kind, const std::string& name) {
    list += has ? "" : std::string(list.empty() ? "" : ",") + kind + ":" + name;
  };
  const auto* begin = capabilities.problems;
  const auto* end = begin + capabilities.problems_count;
  const bool has_problem =
      std::any_of(begin, end, [&](const char* problem) { return parameters.problem == problem; });
  check(has_bit(capabilities.manifolds, parameters.manifold), "manifold", name_of(parameters.manifold));
  check(has_problem, "problem", parameters.problem);
  check(has_bit(capabilities.solvers, parameters.solver), "solver", name_of(parameters.solver));
  check(has_bit(capabilities.estimators, parameters.estimator), "estimator", name_of(parameters.estimator));
  check(has_bit(capabilities.encodings, parameters.upload_encoding), "encoding", name_of(parameters.upload_encoding));
  return list;
}

}  // namespace gradstream
