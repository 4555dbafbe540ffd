#include "server/run/first_model.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

#include "runtime/base/arena.h"
#include "runtime/base/status.h"
#include "server/run/parts.h"
#include "server/run/run_core.h"

namespace gradstream {
namespace {

// Beyond what operations take, for the arena's alignment.
constexpr size_t kArenaSlack = 64;

std::string text_of(double value) {
  char text[32];
  const auto [end, error] = std::to_chars(text, text + sizeof text, value, std::chars_format::general, 3);
  return error == std::errc() ? std::string(text, end) : "a number of no text";
}

// "part 2 (stiefel 64x16)", or "stiefel 64x16" of a point that is no product.
std::string name_of_part(const Part& part, uint32_t index) {
  const std::string shape = text_of(part);
  return index == 0 ? shape : "part " + std::to_string(index) + " (" + shape + ")";
}

void settle_part(const Part& part, const std::string& name, std::span<Real> values, FirstModelVerdict* out) {
  std::vector<uint8_t> memory(part.ops->scratch_size(part.shape) + kArenaSlack);
  Arena arena(memory.data(), memory.size());
  std::vector<Real> nearest(values.size());
  const Status status = part.ops->project_point(part.shape, values.data(), nearest.data(), arena);
  if (status != Status::kOk) {
    out->problem = name + " has no nearest point on its manifold (" + status_text(status) +
                   "); give a point of that manifold, such as `gradstream model export` writes";
    return;
  }
  double moved = 0;
  double norm = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double step = static_cast<double>(nearest[i]) - static_cast<double>(values[i]);
    moved += step * step;
    norm += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  }
  const double distance = std::sqrt(moved) / std::max(1.0, std::sqrt(norm));
  if (distance <= kOnManifoldMax) {
    return;
  }
  if (!(distance <= kNearManifoldMax)) {
    out->problem = name + " is off its manifold by " + text_of(distance) + ", at most " + text_of(kNearManifoldMax) +
                   " (|P(x) - x| / max(1, |x|), P(x) the nearest point); give a point of that manifold, such as "
                   "`gradstream model export` writes";
    return;
  }
  std::copy(nearest.begin(), nearest.end(), values.begin());
  out->projected += (out->projected.empty() ? "" : ", ") + name + " by " + text_of(distance);
}

}  // namespace

FirstModelVerdict settle_first_model(const RunParameters& parameters, std::span<Real> model) {
  GS_ASSERT(model.size() == parameters.model->shape.size());
  FirstModelVerdict verdict;
  if (parameters.model->manifold != ManifoldId::kProduct) {
    const Part whole{server_manifold(parameters), parameters.model->shape};
    settle_part(whole, name_of_part(whole, 0), model, &verdict);
    return verdict;
  }
  uint32_t index = 0;
  for (const Part& part : parameters.model->shape.parts->list()) {
    if (verdict.problem.empty()) {
      settle_part(part, name_of_part(part, ++index), model.first(part.shape.size()), &verdict);
    }
    model = model.subspan(part.shape.size());
  }
  return verdict;
}

}  // namespace gradstream
