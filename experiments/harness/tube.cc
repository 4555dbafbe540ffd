#include "experiments/harness/tube.h"

#include <array>
#include <limits>
#include <numbers>
#include <utility>
#include <vector>

#include "runtime/base/products.h"

namespace gradstream {
namespace {

// Tables of all_manifolds(), at most. Reason: each has functions of its own, made at compile time.
constexpr size_t kTableCountMax = 40;
constexpr Real kGamma = static_cast<Real>(0.5);

bool has_tube(ManifoldId id) {
  return id == ManifoldId::kSphere || id == ManifoldId::kOblique || id == ManifoldId::kStiefel ||
         id == ManifoldId::kGrassmann;
}

Real injectivity_radius(ManifoldId id) {
  const Real pi = std::numbers::pi_v<Real>;
  return id == ManifoldId::kGrassmann ? pi / 2 : has_tube(id) ? pi : std::numeric_limits<Real>::infinity();
}

const ManifoldOps& table(size_t k) { return *all_manifolds()[k]; }

template <size_t k>
Status count_point(Shape shape, const Real* z, Real* out, Arena& arena) {
  const std::vector<Real> from(z, z + shape.size());  // out may be z
  const Status status = table(k).project_point(shape, z, out, arena);
  ++tube_counts().points;
  const bool is_far = status != Status::kOk || !(distance2(shape.size(), from.data(), out) <= kGamma);
  tube_counts().far_points += is_far ? 1 : 0;
  return status;
}

template <size_t k>
Status count_step(Shape shape, const Real* x, const Real* v, Real* out, Arena& arena) {
  ++tube_counts().steps;
  tube_counts().long_steps += norm2(shape.size(), v) < injectivity_radius(table(k).id) ? 0 : 1;
  return table(k).retract(shape, x, v, out, arena);
}

template <size_t k>
Status count_lift(Shape shape, const Real* x, const Real* y, Real* out, Arena& arena) {
  ++tube_counts().lifts;
  const bool is_defined = kStiefelOps.inverse_retract(shape, x, y, out, arena) == Status::kOk;
  tube_counts().undefined_lifts += is_defined ? 0 : 1;
  return table(k).inverse_retract(shape, x, y, out, arena);
}

struct Tables {
  std::array<ManifoldOps, kTableCountMax> copies = {};
  std::array<const ManifoldOps*, kTableCountMax> list = {};
};

template <size_t k>
void copy_table(Tables* out) {
  if (k >= all_manifolds().size()) {
    return;
  }
  ManifoldOps& copy = out->copies[k];
  copy = table(k);
  if (has_tube(copy.id)) {
    copy.project_point = count_point<k>;
  }
  if (has_tube(copy.id) && copy.retraction_kind == RetractionKind::kExponential) {
    copy.retract = count_step<k>;
  }
  if (copy.retraction_kind == RetractionKind::kPolarFormal) {
    copy.inverse_retract = count_lift<k>;
  }
  out->list[k] = &copy;
}

template <size_t... k>
void copy_tables(Tables* out, std::index_sequence<k...>) {
  (copy_table<k>(out), ...);
}

}  // namespace

TubeCounts& operator+=(TubeCounts& sum, const TubeCounts& counts) {
  sum.points += counts.points;
  sum.far_points += counts.far_points;
  sum.steps += counts.steps;
  sum.long_steps += counts.long_steps;
  sum.lifts += counts.lifts;
  sum.undefined_lifts += counts.undefined_lifts;
  return sum;
}

std::string text_of(const TubeCounts& counts) {
  std::string text;
  const auto add = [&](const char* name, uint64_t beyond, uint64_t all) {
    if (all > 0) {
      text += std::string(" ") + name + "=" + std::to_string(beyond) + "/" + std::to_string(all);
    }
  };
  add("far_points", counts.far_points, counts.points);
  add("long_steps", counts.long_steps, counts.steps);
  add("undefined_lifts", counts.undefined_lifts, counts.lifts);
  return text;
}

std::span<const ManifoldOps* const> counting_manifolds() {
  static const Tables& tables = []() -> const Tables& {
    static Tables made;
    copy_tables(&made, std::make_index_sequence<kTableCountMax>());
    return made;
  }();
  GS_ASSERT(all_manifolds().size() <= kTableCountMax);
  return {tables.list.data(), all_manifolds().size()};
}

TubeCounts& tube_counts() {
  thread_local TubeCounts counts;
  return counts;
}

}  // namespace gradstream
