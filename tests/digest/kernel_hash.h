// One number for what the reproducible kernels compute, bit for bit: the same on every processor, compiler and level of
// optimisation, or replicas drift apart. Uses no libm and no host library, so that a board can compute it too.
#ifndef GRADSTREAM_TESTS_DIGEST_KERNEL_HASH_H_
#define GRADSTREAM_TESTS_DIGEST_KERNEL_HASH_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "runtime/base/equations.h"
#include "runtime/base/factors.h"
#include "runtime/base/products.h"
#include "runtime/manifold/manifold.h"

namespace gradstream::testing {

// The value of kernel_hash() everywhere. It changes only with the arithmetic itself, and then a fleet must be updated
// as a whole.
inline constexpr uint64_t kKernelHash = sizeof(Real) == sizeof(float) ? 0xCAF7258C1EC42D73 : 0x9F0FDF2084A7356E;

class KernelHasher {
 public:
  KernelHasher(void* memory, size_t size) : arena_(memory, size) {}

  // FNV-1a over the results of every kernel.
  uint64_t run() {
    constexpr Shape kShapes[] = {{64, 4}, {6, 1}, {16, 2}, {7, 3}, {30, 5}, {13, 9}};
    uint32_t number = 0;
    for (const ManifoldOps* ops : {&kEuclideanOps, &kSphereOps, &kStiefelOps}) {
      for (const Shape shape : kShapes) {
        walk(*ops, shape, ++number);
      }
    }
    for (uint32_t n = 1; n <= 6; ++n) {
      eigen(n);
    }
    return hash_;
  }

 private:
  static constexpr size_t kSizeMax = 256;
  static constexpr int kStepCount = 20;

  void add(Status status) { add_word(static_cast<uint64_t>(status)); }
  void add(size_t count, const Real* x) {
    for (size_t i = 0; i < count; ++i) {
      using Bits = std::conditional_t<sizeof(Real) == sizeof(uint32_t), uint32_t, uint64_t>;
      add_word(std::bit_cast<Bits>(x[i]));
    }
  }
  void add_word(uint64_t word) {
    for (int byte = 0; byte < 8; ++byte) {
      hash_ = (hash_ ^ ((word >> (8 * byte)) & 0xFF)) * 0x100000001B3;
    }
  }
  // Uniform in [-size, size), exact products of integers and a power of two but for one rounding.
  static void fill(uint32_t seed, uint32_t step, size_t count, Real size, Real* out) {
    RandomStream stream({.seed = seed, .step = step});
    for (size_t i = 0; i < count; ++i) {
      out[i] = static_cast<Real>(static_cast<int32_t>(stream.next())) * static_cast<Real>(0x1p-31) * size;
    }
  }

  void walk(const ManifoldOps& ops, Shape shape, uint32_t seed) {
    const size_t size = shape.size();
    fill(seed, 0, size, 2, y_);
    add(ops.project_point(shape, y_, x_, arena_));
    add(size, x_);
    fill(seed, 1, size, 1, w_);
    for (int step = 0; step < kStepCount; ++step) {
      fill(seed, static_cast<uint32_t>(step + 2), size, step % 4 == 0 ? Real{1} : static_cast<Real>(0.03), v_);
      add(ops.riemannian_gradient(shape, x_, v_, v_, arena_));
      add(ops.retract(shape, x_, v_, y_, arena_));
      add(ops.transport(shape, x_, y_, w_, w_, arena_));
      add(ops.inverse_retract(shape, x_, y_, v_, arena_));
      const Real product = ops.inner(shape, y_, v_, w_, arena_).value();
      add(1, &product);
      add(size, v_);
      add(size, w_);
      copy(size, y_, x_);
      add(size, x_);
    }
    if (ops.id == ManifoldId::kStiefel) {
      fill(seed, 0, size, 2, y_);
      add(qr_factor(shape, y_, y_, arena_));
      add(size, y_);
    }
  }

  void eigen(uint32_t n) {
    fill(n, 0, size_t{n} * n, 1, w_);
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < n; ++j) {
        x_[i * n + j] = w_[i * n + j] + w_[j * n + i];
      }
    }
    add(symmetric_eigen(n, x_, v_, y_));
    add(n, v_);
    add(size_t{n} * n, y_);
  }

  Arena arena_;
  uint64_t hash_ = 0xCBF29CE484222325;
  Real x_[kSizeMax];
  Real y_[kSizeMax];
  Real v_[kSizeMax];
  Real w_[kSizeMax];
};

// 64 bits over fixed inputs; takes about 9 KiB of stack in float.
inline uint64_t kernel_hash() {
  uint64_t memory[512];
  return KernelHasher(memory, sizeof(memory)).run();
}

}  // namespace gradstream::testing

#endif  // GRADSTREAM_TESTS_DIGEST_KERNEL_HASH_H_
