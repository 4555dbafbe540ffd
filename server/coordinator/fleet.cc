#include "server/coordinator/fleet.h"

#include <algorithm>

#include "runtime/base/crc32c.h"
#include "server/run/names.h"
#include "server/run/run_core.h"
#include "server/run/units_keys.h"

namespace gradstream {
namespace {

template <typename Enum>
bool has_bit(uint32_t bitmap, Enum value) {
  return (bitmap >> static_cast<uint32_t>(value) & 1U) != 0;
}

constexpr const char* kLackedNetwork = "network";
constexpr const char* kLackedSamples = "samples";

bool lacks_alone(const std::string& lacks, const char* kind) {
  return lacks.starts_with(std::string(kind) + ":") && lacks.find(',') == std::string::npos;
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
  DeviceRow& device = devices_.emplace_back();
  device.name = name;
  device.is_member = !has_cohort_;
  member_count_ += device.is_member ? 1 : 0;
  ++active_count_;
  return size() - 1;
}

void Fleet::revoke(uint32_t index) {
  GS_ASSERT(!at(index).is_revoked);
  at(index).is_revoked = true;
  --active_count_;
  member_count_ -= at(index).is_member ? 1 : 0;
  barred_count_ -= at(index).stages.is_barred ? 1 : 0;
}

void Fleet::restore(uint32_t index) {
  GS_ASSERT(at(index).is_revoked);
  at(index).is_revoked = false;
  ++active_count_;
  member_count_ += at(index).is_member ? 1 : 0;
  barred_count_ += at(index).stages.is_barred ? 1 : 0;
}

DeviceRow& Fleet::at(uint32_t index) {
  GS_ASSERT(contains(index));
  return devices_[index];
}

const DeviceRow& Fleet::at(uint32_t index) const {
  GS_ASSERT(contains(index));
  return devices_[index];
}

void Fleet::set_cohort(const Cohort& cohort) {
  if (!has_cohort_ && cohort.population == 0) {
    return;  // everyone is asked, as before: a version of a run without cohorts costs nothing here
  }
  has_cohort_ = cohort.population > 0;
  for (DeviceRow& device : devices_) {
    device.is_member = !has_cohort_;
  }
  for (const uint32_t member : cohort.members) {
    at(member).is_member = true;
  }
  member_count_ = static_cast<uint32_t>(std::count_if(devices_.begin(), devices_.end(), [](const DeviceRow& device) {
    return device.is_member && !device.is_revoked;
  }));
}

void Fleet::set_barred(uint32_t index, bool is_barred) {
  DeviceRow& device = at(index);
  if (device.stages.is_barred != is_barred && !device.is_revoked) {
    barred_count_ = is_barred ? barred_count_ + 1 : barred_count_ - 1;
  }
  device.stages.is_barred = is_barred;
}

std::vector<uint32_t> Fleet::active_devices() const {
  std::vector<uint32_t> indices;
  for (uint32_t index = 0; index < size(); ++index) {
    if (!devices_[index].is_revoked) {
      indices.push_back(index);
    }
  }
  return indices;
}

bool Fleet::is_asked(uint32_t index) const {
  const DeviceRow& device = at(index);
  return !device.is_revoked && (device.is_member || member_count_ == 0);
}

bool Fleet::is_missing(uint32_t index, uint32_t version) const {
  return is_asked(index) && devices_[index].answered_version != version;
}

std::string Fleet::missing(uint32_t version) const {
  NameList names;
  for (uint32_t index = 0; index < size(); ++index) {
    if (is_missing(index, version)) {
      names.add(devices_[index].name);
    }
  }
  return names.text();
}

std::vector<std::string> Fleet::missing_names(uint32_t version) const {
  std::vector<std::string> names;
  for (uint32_t index = 0; index < size(); ++index) {
    if (is_missing(index, version)) {
      names.push_back(devices_[index].name);
    }
  }
  return names;
}

SequenceState Fleet::sequence_state(uint32_t index, uint32_t task_sequence) const {
  const DeviceRow& device = at(index);
  if (task_sequence == 0 || task_sequence > device.task.sequence) {
    return SequenceState::kUnknown;
  }
  if (task_sequence == device.judged.task_sequence || task_sequence == device.accepted.task_sequence) {
    return SequenceState::kJudged;
  }
  return task_sequence == device.task.sequence && device.task.is_open ? SequenceState::kOpen
                                                                      : SequenceState::kSuperseded;
}

const JudgedTask& Fleet::judged_task(uint32_t index, uint32_t task_sequence) const {
  const DeviceRow& device = at(index);
  return task_sequence == device.accepted.task_sequence ? device.accepted : device.judged;
}

std::string lacking(const RunParameters& parameters, const gs_Capabilities& capabilities, uint64_t network_digest,
                    uint32_t sample_count) {
  std::string list;
  const auto check = [&list](bool has, const char* kind, const std::string& name) {
    list += has ? "" : std::string(list.empty() ? "" : ",") + kind + ":" + name;
  };
  const auto* begin = capabilities.problems;
  const auto* end = begin + capabilities.problems_count;
  const bool has_problem =
      std::any_of(begin, end, [&](const char* problem) { return parameters.model->problem == problem; });
  check(has_bit(capabilities.manifolds, parameters.model->manifold), "manifold", name_of(parameters.model->manifold));
  const bool is_product = parameters.model->manifold == ManifoldId::kProduct;
  bool has_rank = false;
  for (uint32_t i = 0; is_product && parameters.model->part_list != nullptr && i < parameters.model->part_list->count;
       ++i) {
    const ManifoldId id = parameters.model->part_list->part[i].ops->id;
    has_rank = has_rank || id == ManifoldId::kFixedRank;
    check(has_bit(capabilities.manifolds, id), "manifold", name_of(id));
  }
  check(has_problem, "problem", parameters.model->problem);
  check(has_bit(capabilities.solvers, parameters.local->solver), "solver", name_of(parameters.local->solver));
  // The anchors of svrg are steps of gradient_stream.
  const bool has_anchors =
      parameters.local->solver != SolverId::kSvrg || has_bit(capabilities.solvers, SolverId::kGradientStream);
  check(has_anchors, "solver", name_of(SolverId::kGradientStream));
  check(has_bit(capabilities.estimators, parameters.local->estimator), "estimator",
        name_of(parameters.local->estimator));
  check(has_bit(capabilities.encodings, parameters.wire->upload_encoding), "encoding",
        name_of(parameters.wire->upload_encoding));
  // Models travel in the precision that both ends compute with.
  const bool has_precision =
      parameters.wire->upload_encoding == kRealEncoding || has_bit(capabilities.encodings, kRealEncoding);
  check(has_precision, "encoding", name_of(kRealEncoding));
  const auto check_feature = [&](bool is_wanted, gs_Feature feature, const char* name) {
    check(!is_wanted || has_bit(capabilities.features, feature), "feature", name);
  };
  check_feature(parameters.has_memory(), gs_Feature_FEATURE_MEMORY, "memory");
  check_feature(parameters.wire->error_feedback, gs_Feature_FEATURE_ERROR_FEEDBACK, "error_feedback");
  check_feature(!parameters.local->batch_sizes.empty(), gs_Feature_FEATURE_BATCH_SIZES, "batch_sizes");
  const bool is_geodesic = parameters.local->proximal_form == ProximalForm::kGeodesic;
  check_feature(parameters.local->proximal > 0 && is_geodesic, gs_Feature_FEATURE_PROXIMAL, "proximal");
  check_feature(!is_geodesic, gs_Feature_FEATURE_PROXIMAL_FORM, "proximal_form");
  const bool is_distance = parameters.local->proximal_form == ProximalForm::kDistance;
  check_feature(is_distance, gs_Feature_FEATURE_PROXIMAL_DISTANCE, "proximal_distance");
  check_feature(parameters.local->local_retraction != RetractionKind::kDefault, gs_Feature_FEATURE_LOCAL_RETRACTION,
                "local_retraction");
  check_feature(has_rank, gs_Feature_FEATURE_PART_RANK, "part_rank");
  check_feature(is_product && parameters.model->shape.rows > kDimensionMax, gs_Feature_FEATURE_LARGE_PRODUCT,
                "large_product");
  check_feature(units_bits(parameters) != 0, gs_Feature_FEATURE_UNITS, "units");
  // A device without the problem has no network of the problem's either.
  const uint64_t wanted = has_problem ? parameters.network_digest() : 0;
  check_feature(wanted != 0, gs_Feature_FEATURE_NETWORK, "network");
  const bool is_known = has_bit(capabilities.features, gs_Feature_FEATURE_NETWORK);
  check(wanted == 0 || !is_known || network_digest == wanted, kLackedNetwork, parameters.model->network);
  const uint32_t samples_min = parameters.units.keys().samples_min;
  check(sample_count >= samples_min, kLackedSamples, std::to_string(samples_min));
  return list;
}

bool lacks_network_alone(const std::string& lacks) { return lacks_alone(lacks, kLackedNetwork); }

bool lacks_samples_alone(const std::string& lacks) { return lacks_alone(lacks, kLackedSamples); }

uint32_t image_crc32c(const gs_Hello& hello) {
  const gs_Capabilities& has = hello.capabilities;
  std::string text = std::string(hello.firmware_version) + "\n" + hello.board;
  for (const uint32_t word :
       {has.manifolds, has.solvers, has.estimators, has.encodings, has.arena_size, has.features}) {
    text += "\n" + std::to_string(word);
  }
  for (pb_size_t i = 0; i < has.problems_count; ++i) {
    text += std::string("\n") + has.problems[i];
  }
  text += hello.network_digest == 0 ? "" : "\n" + std::to_string(hello.network_digest);
  return crc32c(0, reinterpret_cast<const uint8_t*>(text.data()), text.size());
}

}  // namespace gradstream
