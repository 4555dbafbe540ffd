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

}  // namespace

// What a fold adds of value q, for a weight of 1 and where nothing is clipped: half away from zero.
int64_t Oracle::fixed_part(const Share& share, size_t q, Real inverse_participation) const {
  const double scale = std::ldexp(1.0, static_cast<int>(parameters_.fold->fold_scale_log2));
  const Real steps = is_mean_run() ? 1 : static_cast<Real>(share.steps_done);
  return std::llround(static_cast<double>(share.values[q] / (steps / inverse_participation)) * scale);
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
  const auto all_norms = [this] {
    std::vector<uint64_t> all;
    for (const std::vector<uint64_t>& version : norms_) {
      all.insert(all.end(), version.begin(), version.end());
    }
    return all;
  };
  std::vector<uint64_t> window = all_norms();
  if (keys.clip_norm == ClipNorm::kMedian) {
    window.insert(window.end(), own.begin(), own.end());
  }
  const double fixed = std::ldexp(static_cast<double>(keys.clip_norm_value), static_cast<int>(keys.fold_scale_log2));
  const uint64_t radius =
      keys.clip_norm == ClipNorm::kFixed ? static_cast<uint64_t>(std::llround(fixed)) : clip_radius(window);
  uint32_t clipped_count = 0;
  for (size_t i = 0; i < shares_.size(); ++i) {
    const bool is_long = own[i] > radius;
    shares_[i].clip_scale = is_long ? static_cast<uint32_t>((Wide{radius} << 31) / own[i]) : kClipScaleWhole;
    clipped_count += is_long ? 1 : 0;
  }
  norms_.push_back(own);
  if (norms_.size() > keys.clip_window) {
    norms_.pop_front();
  }
  // Of trailing the record has the radius of the version that it opens.
  const uint64_t decided = keys.clip_norm == ClipNorm::kTrailing ? clip_radius(all_norms()) : radius;
  return said->radius == decided && said->clipped_count == clipped_count
             ? ""
             : "the clip of a version is not that of its updates";
}

}  // namespace gradstream
