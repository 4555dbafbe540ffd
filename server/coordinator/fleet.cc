#include "server/coordinator/fleet.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "server/coordinator/device_rules.h"
#include "server/run/fold_keys.h"
#include "server/run/names.h"
#include "server/run/run_core.h"
#include "server/run/units_keys.h"

namespace gradstream {
namespace {

template <typename Enum>
bool has_bit(uint32_t bitmap, Enum value) {
  return (bitmap >> static_cast<uint32_t>(value) & 1U) != 0;
}

// Of a checkpoint (server/coordinator/coordinator_checkpoint.cc): from it on it says who was seen, and who gave what.
constexpr uint8_t kFormOfAttendance = 3;

constexpr const char* kLackedNetwork = "network";
constexpr const char* kLackedSamples = "samples";

bool lacks_alone(const std::string& lacks, const char* kind) {
  return lacks.starts_with(std::string(kind) + ":") && lacks.find(',') == std::string::npos;
}

// Of what updates and versions travel in: check(has, kind, name).
template <typename Check>
void check_wire(const RunParameters& parameters, const gs_Capabilities& capabilities, Check check) {
  const Encoding upload = parameters.wire->upload_encoding;
  check(has_bit(capabilities.encodings, upload), "encoding", name_of(upload));
  // Models travel in the precision that both ends compute with.
  const bool has_precision = upload == kRealEncoding || has_bit(capabilities.encodings, kRealEncoding);
  check(has_precision, "encoding", name_of(kRealEncoding));
  // A version of scalars travels in an encoding of its own, and an image may know one alone.
  const Encoding record = parameters.wire->record_encoding;
  const bool is_scalar = parameters.stream() == StreamKind::kScalarStream;
  const bool reads_records =
      !is_scalar || record == kRealEncoding || record == upload || has_bit(capabilities.encodings, record);
  check(reads_records, "encoding", name_of(record));
  // An image whose updates are scalars alone has no error feedback, though it has what came to images after that.
  const bool has_tensors = has_bit(capabilities.features, gs_Feature_FEATURE_ERROR_FEEDBACK) ||
                           !has_bit(capabilities.features, gs_Feature_FEATURE_LOCAL_RETRACTION);
  check(is_scalar || has_tensors, "upload_stream", name_of(StreamKind::kTangentBlock));
}

}  // namespace

void NameList::add(const std::string& name) {
  if (count_++ < kNameCountMax) {
    names_ += (names_.empty() ? "" : ",") + name;
  }
}

void NameList::add_unnamed(uint32_t count) { count_ += count; }

std::string NameList::text() const {
  if (count_ > kNameCountMax) {
    return names_ + ",+" + std::to_string(count_ - kNameCountMax);
  }
  return names_.empty() ? "none" : names_;
}

Fleet::Fleet(const std::vector<std::string>& names, uint32_t seen_versions, uint32_t share_window)
    : attendance_(seen_versions), shares_(share_window) {
  for (const std::string& name : names) {
    add(name);
  }
}

uint32_t Fleet::add(const std::string& name) {
  devices_.emplace_back().name = name;
  places_.emplace_back();
  ++of_active_[static_cast<size_t>(VersionStanding::kOut)];  // until it is counted
  attendance_.add();
  active_.append(true);
  blocked_.append(false);
  unable_.append(false);
  touch(size() - 1);
  return size() - 1;
}

void Fleet::revoke(uint32_t index) {
  GS_ASSERT(!at(index).is_revoked);
  at(index).is_revoked = true;
  active_.set(index, false);
  member_count_ -= places_[index].is_chosen ? 1 : 0;
  barred_count_ -= at(index).session.is_barred ? 1 : 0;
}

void Fleet::restore(uint32_t index) {
  GS_ASSERT(at(index).is_revoked);
  at(index).is_revoked = false;
  active_.set(index, true);
  member_count_ += places_[index].is_chosen ? 1 : 0;
  barred_count_ += at(index).session.is_barred ? 1 : 0;
}

FleetDevice& Fleet::at(uint32_t index) {
  GS_ASSERT(contains(index));
  ++visit_count_;
  touch(index);
  return devices_[index];
}

const FleetDevice& Fleet::at(uint32_t index) const {
  GS_ASSERT(contains(index));
  ++visit_count_;
  return devices_[index];
}

// ---- What is counted ----

void Fleet::touch(uint32_t index) {
  if (!places_[index].is_touched) {
    places_[index].is_touched = true;
    touched_.push_back(index);
  }
}

void Fleet::settle() {
  for (const uint32_t index : touched_) {
    places_[index].is_touched = false;
    count_again(index);
  }
  touched_.clear();
}

void Fleet::count_again(uint32_t index) {
  const FleetDevice& device = std::as_const(*this).at(index);
  Place& place = places_[index];
  const VersionStanding before = std::exchange(place.standing, find_standing(index));
  for (StandingCounts* const counts : {&of_active_, &of_members_, &of_seen_}) {
    if (counts == &of_active_ || (counts == &of_members_ ? place.is_chosen : attendance_.is_awaited(index))) {
      --(*counts)[static_cast<size_t>(before)];
      ++(*counts)[static_cast<size_t>(place.standing)];
    }
  }
  blocked_.set(index, place.standing == VersionStanding::kBlocked);
  unable_.set(index, cannot_evaluate(device));
  if (!place.is_of_version &&
      (place.standing == VersionStanding::kAnswered || is_refused(device.row, device.session, open_version_))) {
    place.is_of_version = true;
    of_version_.push_back(index);
  }
}

bool Fleet::cannot_evaluate(const FleetDevice& device) const {
  return !device.is_revoked && device.session.is_heard && !device.session.image.can_evaluate;
}

bool Fleet::is_blocked(uint32_t index) const {
  const FleetDevice& device = at(index);
  return !device.session.is_capable || device.session.is_barred ||
         is_refused(device.row, device.session, open_version_);
}

VersionStanding Fleet::find_standing(uint32_t index) const {
  const FleetDevice& device = at(index);
  return device.is_revoked                                                             ? VersionStanding::kOut
         : open_version_ != kNoVersion && device.row.answered_version == open_version_ ? VersionStanding::kAnswered
         : is_blocked(index)                                                           ? VersionStanding::kBlocked
         : device.session.is_heard                                                     ? VersionStanding::kReady
                                                                                       : VersionStanding::kSilent;
}

// Devices that were noted before are counted later, and by this version: some may have answered it already.
void Fleet::begin_version(uint32_t version, const Cohort& cohort) {
  open_version_ = version;
  for (const uint32_t index : std::exchange(of_version_, {})) {
    places_[index].is_of_version = false;
    touch(index);
  }
  for (const uint32_t index : members_) {
    places_[index].is_chosen = false;
  }
  has_cohort_ = cohort.population > 0;
  members_ = cohort.members;
  count_members();
  attendance_.begin_version(version);
  count_awaited();
  shares_.begin_version();
}

void Fleet::count_awaited() {
  for (const uint32_t index : attendance_.come()) {
    ++of_seen_[static_cast<size_t>(places_[index].standing)];
  }
  for (const uint32_t index : attendance_.gone()) {
    --of_seen_[static_cast<size_t>(places_[index].standing)];
  }
}

uint32_t Fleet::seen_count() const {
  return std::accumulate(of_seen_.begin() + 1, of_seen_.end(), 0U);  // without kOut
}

bool Fleet::is_awaited(uint32_t index) const {
  const VersionStanding standing = find_standing(index);
  const bool may_answer = standing == VersionStanding::kReady || standing == VersionStanding::kSilent;
  return may_answer && (attendance_.is_kept() ? attendance_.is_awaited(index) || seen_count() == 0 : is_asked(index));
}

uint32_t Fleet::awaited_count() {
  settle();
  const StandingCounts& counts = seen_count() > 0 ? of_seen_ : asks_members() ? of_members_ : of_active_;
  return counts[static_cast<size_t>(VersionStanding::kReady)] + counts[static_cast<size_t>(VersionStanding::kSilent)];
}

// Passes by those that have answered or are not awaited, and no others.
std::vector<std::string> Fleet::awaited_names(size_t count_max) {
  settle();
  std::vector<std::string> names;
  for (uint32_t rank = 0; rank < active_.count() && names.size() < count_max; ++rank) {
    const uint32_t index = active_.at(rank);
    if (std::as_const(*this).is_awaited(index)) {
      names.push_back(std::as_const(*this).at(index).name);
    }
  }
  return names;
}

std::string Fleet::gone_names() const {
  NameList names;
  const uint32_t named = std::min(gone_count(), NameList::kNameCountMax);
  for (uint32_t i = 0; i < named; ++i) {
    names.add(at(attendance_.gone()[i]).name);
  }
  names.add_unnamed(gone_count() - named);
  return names.text();
}

void Fleet::count_members() {
  member_count_ = 0;
  of_members_ = {};
  for (const uint32_t index : members_) {
    member_count_ += std::as_const(*this).at(index).is_revoked ? 0 : 1;
    places_[index].is_chosen = true;
    ++of_members_[static_cast<size_t>(places_[index].standing)];
  }
}

StandingCounts Fleet::standings() {
  settle();
  StandingCounts counts = asks_members() ? of_members_ : of_active_;
  counts[static_cast<size_t>(VersionStanding::kOut)] = 0;
  return counts;
}

std::string Fleet::find_miscount() const {
  StandingCounts active = {};
  StandingCounts chosen = {};
  StandingCounts seen = {};
  for (uint32_t index = 0; index < size(); ++index) {
    const Place& place = places_[index];
    const FleetDevice& device = devices_[index];
    ++active[static_cast<size_t>(place.standing)];
    chosen[static_cast<size_t>(place.standing)] += place.is_chosen ? 1 : 0;
    seen[static_cast<size_t>(place.standing)] += attendance_.is_awaited(index) ? 1 : 0;
    const bool is_right = place.standing == find_standing(index) &&
                          blocked_.contains(index) == (place.standing == VersionStanding::kBlocked) &&
                          unable_.contains(index) == cannot_evaluate(device);
    if (active_.contains(index) == device.is_revoked || (!place.is_touched && !is_right)) {
      return "device " + device.name + " is counted for what it is not";
    }
  }
  return active == of_active_ && chosen == of_members_ && seen == of_seen_ ? ""
                                                                           : "the counts are not those of the devices";
}

// Where members are chosen, a device that the checkpoint does not know is asked from the next version on.
void Fleet::exchange(StateArchive& io, uint32_t version) {
  bool has_cohort = has_cohort_;
  uint32_t count = size();
  io.values(has_cohort, count);
  if (count > size()) {
    io.fail();
  }
  Cohort cohort;
  cohort.population = has_cohort ? std::max(count, 1U) : 0;
  for (uint32_t index = 0; index < std::min(count, size()); ++index) {
    at(index).row.exchange(io);
    bool is_one = is_member(index);
    io.values(is_one);
    if (has_cohort && is_one) {
      cohort.members.push_back(index);
    } else if (!has_cohort && !is_one) {
      io.fail();
    }
  }
  if (io.is_reading()) {
    begin_version(version, cohort);
  }
  if (io.has_form(kFormOfAttendance)) {
    attendance_.exchange(io, version, std::min(count, size()));
    shares_.exchange(io, size());
    of_seen_ = {};
    for (uint32_t index = 0; attendance_.is_kept() && index < size(); ++index) {
      of_seen_[static_cast<size_t>(places_[index].standing)] += attendance_.is_awaited(index) ? 1 : 0;
    }
  }
}

void Fleet::set_barred(uint32_t index, bool is_barred) {
  FleetDevice& device = at(index);
  barred_count_ += !device.is_revoked && is_barred && !device.session.is_barred ? 1 : 0;
  barred_count_ -= !device.is_revoked && !is_barred && device.session.is_barred ? 1 : 0;
  device.session.is_barred = is_barred;
}

bool Fleet::is_member(uint32_t index) const {
  GS_ASSERT(contains(index));
  return !has_cohort_ || places_[index].is_chosen;
}

bool Fleet::is_asked(uint32_t index) const { return !at(index).is_revoked && (is_member(index) || !has_members()); }

std::vector<uint32_t> Fleet::blocked() {
  settle();
  std::vector<uint32_t> out;
  if (asks_members()) {
    std::copy_if(members_.begin(), members_.end(), std::back_inserter(out),
                 [this](uint32_t index) { return blocked_.contains(index); });
    return out;
  }
  for (uint32_t rank = 0; rank < blocked_.count(); ++rank) {
    out.push_back(blocked_.at(rank));
  }
  return out;
}

std::string Fleet::missing() {
  NameList names;
  const std::vector<std::string> first = missing_names(NameList::kNameCountMax);
  for (const std::string& name : first) {
    names.add(name);
  }
  const uint32_t answered = standings()[static_cast<size_t>(VersionStanding::kAnswered)];
  names.add_unnamed(asked_count() - answered - static_cast<uint32_t>(first.size()));
  return names.text();
}

// Passes by those that have answered, and no others.
std::vector<std::string> Fleet::missing_names(size_t count_max) {
  settle();
  std::vector<std::string> names;
  const bool is_few = asks_members();
  const uint32_t count = is_few ? static_cast<uint32_t>(members_.size()) : active_.count();
  for (uint32_t i = 0; i < count && names.size() < count_max; ++i) {
    const uint32_t index = is_few ? members_[i] : active_.at(i);
    const VersionStanding standing = places_[index].standing;
    if (standing != VersionStanding::kOut && standing != VersionStanding::kAnswered) {
      names.push_back(std::as_const(*this).at(index).name);
    }
  }
  return names;
}

std::string Fleet::unable_to_evaluate() {
  settle();
  NameList names;
  const uint32_t named = std::min(unable_.count(), NameList::kNameCountMax);
  for (uint32_t rank = 0; rank < named; ++rank) {
    names.add(std::as_const(*this).at(unable_.at(rank)).name);
  }
  names.add_unnamed(unable_.count() - named);
  return names.text();
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
  check_wire(parameters, capabilities, check);
  const auto check_feature = [&](bool is_wanted, gs_Feature feature, const char* name) {
    check(!is_wanted || has_bit(capabilities.features, feature), "feature", name);
  };
  check_feature(parameters.has_memory(), gs_Feature_FEATURE_MEMORY, "memory");
  const bool clips = parameters.fold.keys().clip_norm != ClipNorm::kNone;
  check_feature(parameters.has_memory() && clips, gs_Feature_FEATURE_CLIP_SCALE, "clip_scale");
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

}  // namespace gradstream
