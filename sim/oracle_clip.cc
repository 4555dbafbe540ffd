// The clip of updates again, by its definition and not by the server's code: whole numbers of 128 bits.
#include <algorithm>
#include <cmath>

#include "server/run/fold_keys.h"
#include "server/run/run_core.h"
#include "sim/oracle.h"

namespace gradstream {
namespace {

using Wide = unsigned __int128;

uint64_t root_rounded_up(Wide square) {
  uint64_t root = 0;
  for (uint64_t bit = uint64_t{1} << 63; bit > 0; bit >>= 1) {
    root += Wide{root + bit} * (root + bit) <= square ? bit : 0;
  }
  return Wide{root} * root < square ? root + 1 : root;
}

// r, 2^31 where all is left.
uint32_t scale_of(uint64_t norm, uint64_t radius) {
  return norm > radius ? static_cast<uint32_t>((Wide{radius} << 31) / norm) : uint32_t{1} << 31;
}

}  // namespace

// What a fold adds of value q, for a weight of 1 and where nothing is clipped: half away from zero.
int64_t Oracle::fixed_part(const Share& share, size_t q, Real inverse_participation) const {
  const double scale = std::ldexp(1.0, static_cast<int>(parameters_.fold->fold_scale_log2));
  const Real steps = is_mean_run() ? 1 : static_cast<Real>(share.steps_done);
  return std::llround(static_cast<double>(share.values[q] / (steps / inverse_participation)) * scale);
}

int64_t Oracle::clipped_part(const Share& share, size_t q, Real inverse_participation) const {
  const int64_t part = fixed_part(share, q, inverse_participation);
  const auto kept = static_cast<int64_t>(Wide{static_cast<uint64_t>(std::abs(part))} * share.clip_scale >> 31);
  return part < 0 ? -kept : kept;
}

uint64_t Oracle::norm_of(const Share& share) const {
  Wide sum = 0;
  for (size_t q = 0; q < share.values.size(); ++q) {
    const auto part = static_cast<uint64_t>(std::abs(fixed_part(share, q, 1)));
    sum += Wide{part} * part;
  }
  return root_rounded_up(sum * share.steps_done);
}

// factor times the lower median of those that are not 0; of no norms, what clips nothing.
uint64_t Oracle::clip_radius(std::vector<uint64_t> norms) const {
  std::erase(norms, 0);
  if (norms.empty()) {
    return UINT64_MAX;
  }
  std::sort(norms.begin(), norms.end());
  const auto factor = static_cast<uint64_t>(std::lround(parameters_.fold.keys().clip_factor * 256));
  const Wide radius = Wide{norms[(norms.size() - 1) / 2]} * factor >> 8;
  return radius > UINT64_MAX ? UINT64_MAX : static_cast<uint64_t>(radius);
}

uint64_t Oracle::open_radius(const std::vector<uint64_t>& own) const {
  const FoldKeys& keys = parameters_.fold.keys();
  if (keys.clip_norm == ClipNorm::kFixed) {
    const double fixed = std::ldexp(static_cast<double>(keys.clip_norm_value), static_cast<int>(keys.fold_scale_log2));
    return static_cast<uint64_t>(std::llround(fixed));
  }
  std::vector<uint64_t> window;
  for (const std::vector<uint64_t>& version : norms_) {
    window.insert(window.end(), version.begin(), version.end());
  }
  if (keys.clip_norm == ClipNorm::kMedian) {
    window.insert(window.end(), own.begin(), own.end());
  }
  return clip_radius(window);
}

// What an Ack says of the update that the memory holds of the device. An update of the open version has no scale yet:
// its radius is that of the versions before.
std::string Oracle::check_said_clip(uint32_t device, uint32_t base_version, uint32_t said) const {
  uint32_t scale = kClipScaleWhole;
  const auto held = held_.find(device);
  if (held != held_.end() && held->second.base_version == base_version) {
    scale = held->second.clip_scale;
  }
  for (const Share& share : shares_) {
    if (share.device == device && share.base_version == base_version) {
      scale = scale_of(norm_of(share), open_radius({}));
    }
  }
  const bool is_told = parameters_.has_memory() && parameters_.fold.keys().clip_norm != ClipNorm::kNone;
  const uint32_t wanted = !is_told || scale == kClipScaleWhole ? 0 : scale;
  return said == wanted ? "" : "an Ack says another scale than the clip's";
}

std::string Oracle::clip_shares(const JournalRecord& record) {
  const FoldKeys& keys = parameters_.fold.keys();
  std::optional<ClipDecided> said;
  if (record.read_clip(&said) != Status::kOk) {
    return "the clip of a version does not decode";
  }
  const bool clips = keys.clip_norm != ClipNorm::kNone && stages_.open == TaskStage::kTrain && !shares_.empty();
  if (clips != said.has_value()) {
    return clips ? "a version says nothing of its clip" : "a version names a clip, and has none";
  }
  if (!clips) {
    return "";
  }
  std::vector<uint64_t> own;
  std::transform(shares_.begin(), shares_.end(), std::back_inserter(own), [&](const Share& s) { return norm_of(s); });
  const uint64_t radius = open_radius(own);
  uint32_t clipped_count = 0;
  for (size_t i = 0; i < shares_.size(); ++i) {
    shares_[i].clip_scale = scale_of(own[i], radius);
    clipped_count += own[i] > radius ? 1 : 0;
  }
  norms_.push_back(own);
  if (norms_.size() > keys.clip_window) {
    norms_.pop_front();
  }
  // Of trailing the record has the radius of the version that it opens.
  const uint64_t decided = keys.clip_norm == ClipNorm::kTrailing ? open_radius({}) : radius;
  return said->radius == decided && said->clipped_count == clipped_count
             ? ""
             : "the clip of a version is not that of its updates";
}

}  // namespace gradstream
