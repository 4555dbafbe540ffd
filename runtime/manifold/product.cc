// A product of manifolds: a network with some constrained layers is one point. The parts stand one after the other in
// one column of numbers; Shape::parts says which manifold each is on, in which variant and shape. Every operation is
// the parts' own, in their order; metric and squared distance are sums. An operation that one part refuses is refused
// with that part's status, and the output is then spoilt.
//
// random_point draws part k from the stream of the key with its owner raised by k. A product inside a product is
// refused: list its parts instead.
#include "runtime/base/no_contraction.h"

#include <cmath>

#include "runtime/manifold/manifold.h"

namespace gradstream {
namespace {

struct Product {
  static constexpr ManifoldId kId = ManifoldId::kProduct;
  static constexpr const char* kName = "product";
  // The parts have their own.
  static constexpr RetractionKind kRetraction = RetractionKind::kDefault;
  static constexpr TransportKind kTransport = TransportKind::kDefault;
  static constexpr RetractionKind kDefaultRetraction = kRetraction;
  static constexpr TransportKind kDefaultTransport = kTransport;
  // As far as the parts are: is_reproducible(), has_isometric_transport().
  static constexpr bool kReproducible = true;
  static constexpr bool kIsometricTransport = true;

  static Status check_shape(Shape shape) {
    if (shape.parts == nullptr || shape.parts->count == 0 || shape.parts->count > kPartCountMax || shape.cols != 1) {
      return Status::kInvalidArgument;
    }
    uint64_t size = 0;
    for (const Part& part : shape.parts->list()) {
      if (part.ops == nullptr || part.ops->id == kId) {
        return Status::kInvalidArgument;
      }
      GS_TRY(part.ops->check_shape(part.shape));
      size += part.shape.size();
    }
    return size == shape.rows && size <= kProductSizeMax ? Status::kOk : Status::kInvalidArgument;
  }
  static size_t dimension(Shape shape) {
    size_t sum = 0;
    for (const Part& part : shape.parts->list()) {
      sum += part.ops->dimension(part.shape);
    }
    return sum;
  }
  static size_t scratch_size(Shape shape) {
    size_t most = 0;
    for (const Part& part : shape.parts->list()) {
      const size_t size = part.ops->scratch_size(part.shape);
      most = size > most ? size : most;
    }
    return most;
  }

  static Status project_point(Shape shape, const Real* z, Real* out, Arena& arena) {
    return for_each(shape, [&](const Part& part, size_t at) {
      return part.ops->project_point(part.shape, z + at, out + at, arena);
    });
  }
  static Status project_tangent(Shape shape, const Real* x, const Real* g, Real* out, Arena& arena) {
    return for_each(shape, [&](const Part& part, size_t at) {
      return part.ops->project_tangent(part.shape, x + at, g + at, out + at, arena);
    });
  }
  static Status riemannian_gradient(Shape shape, const Real* x, const Real* g, Real* out, Arena& arena) {
    return for_each(shape, [&](const Part& part, size_t at) {
      return part.ops->riemannian_gradient(part.shape, x + at, g + at, out + at, arena);
    });
  }
  static Status retract(Shape shape, const Real* x, const Real* v, Real* out, Arena& arena) {
    return for_each(shape, [&](const Part& part, size_t at) {
      return part.ops->retract(part.shape, x + at, v + at, out + at, arena);
    });
  }
  static Status inverse_retract(Shape shape, const Real* x, const Real* y, Real* out, Arena& arena) {
    return for_each(shape, [&](const Part& part, size_t at) {
      return part.ops->inverse_retract(part.shape, x + at, y + at, out + at, arena);
    });
  }
  static Status transport(Shape shape, const Real* x, const Real* y, const Real* v, Real* out, Arena& arena) {
    return for_each(shape, [&](const Part& part, size_t at) {
      return part.ops->transport(part.shape, x + at, y + at, v + at, out + at, arena);
    });
  }
  // kUnimplemented where a part has none.
  static Status exp_map(Shape shape, const Real* x, const Real* v, Real* out, Arena& arena) {
    return for_each(shape, [&](const Part& part, size_t at) {
      return part.ops->exp_map == nullptr ? Status::kUnimplemented
                                          : part.ops->exp_map(part.shape, x + at, v + at, out + at, arena);
    });
  }
  static Status log_map(Shape shape, const Real* x, const Real* y, Real* out, Arena& arena) {
    return for_each(shape, [&](const Part& part, size_t at) {
      return part.ops->log_map == nullptr ? Status::kUnimplemented
                                          : part.ops->log_map(part.shape, x + at, y + at, out + at, arena);
    });
  }
  // kUnimplemented where a part has none.
  static Status distance_gradient(Shape shape, const Real* x, const Real* y, Real* out, Arena& arena) {
    return for_each(shape, [&](const Part& part, size_t at) {
      return part.ops->distance_gradient == nullptr
                 ? Status::kUnimplemented
                 : part.ops->distance_gradient(part.shape, x + at, y + at, out + at, arena);
    });
  }
  static Result<Real> inner(Shape shape, const Real* x, const Real* v, const Real* w, Arena& arena) {
    Real sum = 0;
    const Status status = for_each(shape, [&](const Part& part, size_t at) {
      const Result<Real> term = part.ops->inner(part.shape, x + at, v + at, w + at, arena);
      sum += term.ok() ? term.value() : 0;
      return term.status();
    });
    return status == Status::kOk ? Result<Real>(sum) : Result<Real>(status);
  }
  static Result<Real> distance(Shape shape, const Real* x, const Real* y, Arena& arena) {
    Real sum = 0;
    const Status status = for_each(shape, [&](const Part& part, size_t at) {
      const Result<Real> term = part.ops->distance(part.shape, x + at, y + at, arena);
      sum += term.ok() ? term.value() * term.value() : 0;
      return term.status();
    });
    return status == Status::kOk ? Result<Real>(std::sqrt(sum)) : Result<Real>(status);
  }
  static Status random_point(Shape shape, const RandomKey& key, Real* out, Arena& arena) {
    RandomKey part_key = key;
    return for_each(shape, [&](const Part& part, size_t at) {
      const Status status = part.ops->random_point(part.shape, part_key, out + at, arena);
      ++part_key.owner;
      return status;
    });
  }

 private:
  // operation(part, offset of its numbers) for every part; the first status that is not kOk ends it.
  template <typename Operation>
  static Status for_each(Shape shape, Operation operation) {
    size_t at = 0;
    for (const Part& part : shape.parts->list()) {
      GS_TRY(operation(part, at));
      at += part.shape.size();
    }
    return Status::kOk;
  }
};

}  // namespace

constexpr ManifoldOps kProductOps = make_manifold_ops<Product>();

}  // namespace gradstream
