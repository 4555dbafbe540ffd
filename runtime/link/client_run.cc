#include "runtime/base/no_contraction.h"

#include "runtime/link/client_run.h"

#include <bit>
#include <cmath>
#include <iterator>

#include "runtime/base/config.h"

namespace gradstream {
namespace {

// The shape of one part of a product: its own, or that of the factors of a matrix. Where the two do not fit the part's
// manifold, check_shape() of the product says so. Factors need no operations, only their shapes.
Result<Shape> shape_of(const gs_ManifoldPart& part, Arena& arena) {
  if (part.rank == 0) {
    return Shape{part.rows, part.cols};
  }
  const Result<Parts*> factors = arena.persistent<Parts>(1);
  GS_TRY(factors.status());
  const uint32_t rank = part.rank;
  *factors.value() = Parts{3, {{nullptr, {part.rows, rank}}, {nullptr, {part.cols, rank}}, {nullptr, {rank, rank}}}};
  return Shape{uint32_t{part.rows} + part.cols + rank, rank, factors.value()};
}

}  // namespace

Status UnitsTable::prepare(uint32_t count, Arena& arena) {
  const Result<UnitsColumn*> columns = arena.persistent<UnitsColumn>(count);
  GS_TRY(columns.status());
  columns_ = columns.value();
  count_ = count;
  is_held_ = false;
  return Status::kOk;
}

uint8_t* UnitsTable::begin() {
  static_assert(std::endian::native == std::endian::little, "the bytes of the wire are those of the table");
  is_held_ = false;
  return reinterpret_cast<uint8_t*>(columns_);
}

Status UnitsTable::adopt() {
  for (uint32_t i = 0; i < count_; ++i) {
    const UnitsColumn& column = columns_[i];
    if (column.exponent < kUnitsExponentMin || column.exponent > kUnitsExponentMax) {
      return Status::kDataCorrupt;
    }
    if (!std::isfinite(column.mean) || !std::isfinite(column.factor)) {
      return Status::kNotFinite;
    }
  }
  is_held_ = true;
  return Status::kOk;
}

// Where the run is on a product or of fixed rank: its parts, in the arena. Factors have no operations of their own.
Status RunModel::fill_parts(const Registry& registry, Arena& arena, Shape* shape) const {
  static_assert(std::size(decltype(welcome_.manifold_parts){}) == kPartCountMax);
  const uint32_t count = welcome_.manifold_parts_count;
  const bool is_product = welcome_.manifold == gs_MANIFOLD_PRODUCT;
  if (!kHasProducts || (!is_product && welcome_.manifold != gs_MANIFOLD_FIXED_RANK)) {
    return count == 0 ? Status::kOk : Status::kInvalidArgument;
  }
  const Result<Parts*> parts = arena.persistent<Parts>(1);
  GS_TRY(parts.status());
  *parts.value() = Parts{count, {}};
  for (uint32_t i = 0; i < count; ++i) {
    const gs_ManifoldPart& from = welcome_.manifold_parts[i];
    Part& part = parts.value()->part[i];
    const Result<Shape> of_part = shape_of(from, arena);
    GS_TRY(of_part.status());
    part.shape = of_part.value();
    part.ops = find_manifold(registry.manifolds, static_cast<ManifoldId>(from.manifold),
                             static_cast<RetractionKind>(from.retraction), static_cast<TransportKind>(from.transport));
    if (part.ops == nullptr && is_product) {
      return Status::kUnimplemented;
    }
    if (from.rank != 0 && (!is_product || from.manifold != gs_MANIFOLD_FIXED_RANK)) {
      return Status::kInvalidArgument;
    }
  }
  shape->parts = parts.value();
  return Status::kOk;
}

// Whether the image leaves out what the run needs. The server knows that of a device by its Hello; this is for one that
// asks all the same.
bool RunModel::is_left_out() const {
  return (!kRemembers && welcome_.correction == gs_Correction_CORRECTION_MEMORY) ||
         (!kSendsTensors && (!is_scalar() || (welcome_.model_parts & kExtraPartBits) != 0)) ||
         (!kHasProducts && (welcome_.manifold == gs_MANIFOLD_PRODUCT || welcome_.manifold == gs_MANIFOLD_FIXED_RANK));
}

Status RunModel::begin(const gs_Welcome& welcome, const Registry& registry, Arena& arena) {
  replica_ = Replica();
  if (kTakesUnits) {
    units_ = UnitsTable();
  }
  lean_ = nullptr;
  welcome_ = welcome;
  const bool is_by_signs = welcome.directions == gs_Directions_DIRECTIONS_SIGN;
  if (welcome.stream == gs_STREAM_KIND_NONE ||
      (is_scalar() && (welcome.direction_count == 0 || welcome.directions == gs_DIRECTIONS_NONE))) {
    return Status::kInvalidArgument;
  }
  if (is_left_out()) {
    return Status::kUnimplemented;
  }
  const ManifoldOps* manifold =
      find_manifold(registry.manifolds, static_cast<ManifoldId>(welcome.manifold),
                    static_cast<RetractionKind>(welcome.retraction), static_cast<TransportKind>(welcome.transport));
  if (manifold == nullptr) {
    return Status::kUnimplemented;
  }
  Shape shape{welcome.rows, welcome.cols};
  GS_TRY(fill_parts(registry, arena, &shape));
  // A table of the application's, such as one by Eigen: records of scalars would lead it to another model. A board
  // links none.
  if (kHasHostMembers && is_scalar() && !is_reproducible(*manifold, shape)) {
    return Status::kUnimplemented;
  }
  const bool has_mean =
      kHoldsMeans && (has_memory() || (!is_scalar() && welcome.correction == gs_Correction_CORRECTION_LOCAL));
  if (has_memory() && is_scalar() && !is_by_signs) {
    return Status::kInvalidArgument;
  }
  if (kLinksLeanForm && is_scalar() && !has_mean && is_by_signs) {
    lean_ = registry.lean;
  }
  return replica_.prepare(*manifold, shape, arena, has_mean, welcome.model_parts, lean() == nullptr);
}

}  // namespace gradstream
