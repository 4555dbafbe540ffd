// LeNet-5's shape: two convolutions with means of 2 x 2 after each, then a perceptron; one sample at a time. A
// convolution adds whole rows of its input, so that the inner loop runs over neighbours in memory.
#include "runtime/base/no_contraction.h"

#include "runtime/base/products.h"
#include "runtime/problem/perceptron.h"

namespace gradstream {
namespace {

constexpr uint32_t kKernel = 5;

// Sides of square maps. The input has its border of 2 around it.
struct Convolution {
  uint32_t inputs;   // maps
  uint32_t outputs;  // maps
  uint32_t side_in;

  constexpr uint32_t side_out() const { return side_in - kKernel + 1; }
  constexpr uint32_t side_pooled() const { return side_out() / 2; }
  constexpr uint32_t kernel_size() const { return inputs * kKernel * kKernel; }
  constexpr uint32_t size() const { return outputs * (kernel_size() + 1); }
  constexpr uint32_t map_count_in() const { return inputs * side_in * side_in; }
  constexpr uint32_t map_count_out() const { return outputs * side_out() * side_out(); }
  constexpr uint32_t pooled_count() const { return outputs * side_pooled() * side_pooled(); }
};

constexpr uint32_t kImageSide = 28;
constexpr uint32_t kBorder = 2;
constexpr Convolution kFirst = {1, 6, kImageSide + 2 * kBorder};
constexpr Convolution kSecond = {6, 16, kFirst.side_pooled()};
constexpr uint32_t kFeatureCount = kSecond.pooled_count();
constexpr uint32_t kConvolutionSize = kFirst.size() + kSecond.size();
static_assert(kFeatureCount == 400);

const NetworkData& data_of(const void* context) { return *static_cast<const NetworkData*>(context); }

uint32_t sample_count(const void* context) { return data_of(context).source.count; }

// The perceptron at the end.
struct Tail {
  explicit Tail(const NetworkData& data) : widths{kFeatureCount, 120, 84, data.widths[0]} {}
  Layers layers() const { return {widths, 4}; }
  uint16_t widths[4];
};

Status check_shape(const void* context, Shape shape) {
  const NetworkData& data = data_of(context);
  const bool fits = data.width_count == 1 && data.widths[0] >= 2 && shape.size() == lenet_size(data.widths[0]) &&
                    data.source.dimension == kImageSide * kImageSide + 1;
  return fits ? Status::kOk : Status::kInvalidArgument;
}

struct Work {
  Real* sample = nullptr;  // image, label
  Real* image = nullptr;   // with its border
  Real* maps[2] = {};      // of each convolution, rectified; then their error
  Real* pooled[2] = {};    // means of 2 x 2; then their error
  Real* activations = nullptr;
  Real* hidden = nullptr;
};

struct Want {
  Real** memory;
  size_t count;
};

size_t visit_work(const NetworkData& data, Work* work, Arena* arena, Status* status) {
  const Tail tail(data);
  const Want wanted[] = {{&work->sample, data.source.dimension},
                         {&work->image, kFirst.map_count_in()},
                         {&work->maps[0], kFirst.map_count_out()},
                         {&work->pooled[0], kFirst.pooled_count()},
                         {&work->maps[1], kSecond.map_count_out()},
                         {&work->pooled[1], kSecond.pooled_count()},
                         {&work->activations, tail.layers().activation_count()},
                         {&work->hidden, tail.layers().hidden_width_max()}};
  size_t size = 0;
  for (const Want& want : wanted) {
    size += Arena::taken_size<Real>(want.count);
    if (arena != nullptr && *status == Status::kOk) {
      const Result<Real*> memory = arena->scratch<Real>(want.count);
      *status = memory.status();
      *want.memory = memory.ok() ? memory.value() : nullptr;
    }
  }
  return size;
}

size_t scratch_size(const void* context, Shape) {
  Work work;
  return visit_work(data_of(context), &work, nullptr, nullptr);
}

Status take_work(const NetworkData& data, Arena& arena, Work* work) {
  Status status = Status::kOk;
  visit_work(data, work, &arena, &status);
  return status;
}

// Calls visit(weight's offset, first of in, first of out, row length) for every row that a kernel's weight adds.
template <typename Visit>
void for_each_row(const Convolution& c, Visit visit) {
  for (uint32_t o = 0; o < c.outputs; ++o) {
    for (uint32_t i = 0; i < c.inputs; ++i) {
      for (uint32_t k = 0; k < kKernel * kKernel; ++k) {
        for (uint32_t r = 0; r < c.side_out(); ++r) {
          visit(o * c.kernel_size() + i * kKernel * kKernel + k,
                (i * c.side_in + r + k / kKernel) * c.side_in + k % kKernel, (o * c.side_out() + r) * c.side_out(),
                c.side_out());
        }
      }
    }
  }
}

void convolve(const Convolution& c, const Real* x, const Real* in, Real* maps, Real* pooled) {
  const uint32_t area = c.side_out() * c.side_out();
  for (uint32_t o = 0; o < c.outputs; ++o) {
    for (uint32_t e = 0; e < area; ++e) {
      maps[o * area + e] = x[c.outputs * c.kernel_size() + o];
    }
  }
  for_each_row(c, [&](uint32_t w, uint32_t from, uint32_t to, uint32_t count) {
    add_scaled(count, x[w], in + from, maps + to);
  });
  for (uint32_t e = 0; e < c.map_count_out(); ++e) {
    maps[e] = rectified(maps[e]);
  }
  const uint32_t side = c.side_pooled();
  for (uint32_t o = 0; o < c.outputs; ++o) {
    for (uint32_t r = 0; r < side; ++r) {
      const Real* const above = maps + (o * c.side_out() + 2 * r) * c.side_out();
      const Real* const below = above + c.side_out();
      for (uint32_t q = 0; q < side; ++q) {
        pooled[(o * side + r) * side + q] =
            static_cast<Real>(0.25) * ((above[2 * q] + above[2 * q + 1]) + (below[2 * q] + below[2 * q + 1]));
      }
    }
  }
}

// maps: rectified values, then their error. in_error, which may be in: null for the image's.
void add_convolution_gradient(const Convolution& c, const Real* x, const Real* in, Real* maps, const Real* pooled_error,
                              Real* gradient, Real* in_error) {
  const uint32_t side = c.side_out();
  for (uint32_t e = 0; e < c.map_count_out(); ++e) {
    const uint32_t o = e / (side * side);
    const uint32_t r = e / side % side;
    const uint32_t q = e % side;
    const uint32_t pooled = (o * c.side_pooled() + r / 2) * c.side_pooled() + q / 2;
    maps[e] = maps[e] > 0 ? static_cast<Real>(0.25) * pooled_error[pooled] : 0;
    gradient[c.outputs * c.kernel_size() + o] += maps[e];
  }
  for_each_row(c, [&](uint32_t w, uint32_t from, uint32_t to, uint32_t count) {
    gradient[w] += dot(count, in + from, maps + to);
  });
  if (in_error != nullptr) {
    fill_zero(c.map_count_in(), in_error);
    for_each_row(c, [&](uint32_t w, uint32_t from, uint32_t to, uint32_t count) {
      add_scaled(count, x[w], maps + to, in_error + from);
    });
  }
}

Result<Real> take_sample(const NetworkData& data, const Real* x, uint32_t index, const Work& work) {
  GS_TRY(data.source.read(data.source.context, index, work.sample));
  if (!all_finite(data.source.dimension, work.sample)) {
    return Status::kNotFinite;
  }
  fill_zero(kFirst.map_count_in(), work.image);
  for (uint32_t r = 0; r < kImageSide; ++r) {
    copy(kImageSide, work.sample + r * kImageSide, work.image + (r + kBorder) * kFirst.side_in + kBorder);
  }
  convolve(kFirst, x, work.image, work.maps[0], work.pooled[0]);
  convolve(kSecond, x + kFirst.size(), work.pooled[0], work.maps[1], work.pooled[1]);
  return run_layers(Tail(data).layers(), x + kConvolutionSize, work.pooled[1], work.sample[kImageSide * kImageSide],
                    work.activations);
}

void add_gradient(const NetworkData& data, const Real* x, const Work& work, Real* out) {
  const Tail tail(data);
  add_layers_gradient(tail.layers(), x + kConvolutionSize, work.pooled[1], work.sample[kImageSide * kImageSide],
                      work.activations, work.hidden, out + kConvolutionSize, work.pooled[1]);
  add_convolution_gradient(kSecond, x + kFirst.size(), work.pooled[0], work.maps[1], work.pooled[1],
                           out + kFirst.size(), work.pooled[0]);
  add_convolution_gradient(kFirst, x, work.image, work.maps[0], work.pooled[0], out, nullptr);
}

Result<Real> loss(const void* context, Shape, const Real* x, Batch batch, Arena& arena) {
  const NetworkData& data = data_of(context);
  ScratchScope scope(arena);
  Work work;
  GS_TRY(take_work(data, arena, &work));
  return mean_loss(batch, [&](uint32_t index) { return take_sample(data, x, index, work); });
}

Status gradient(const void* context, Shape shape, const Real* x, Batch batch, Real* out, Arena& arena) {
  const NetworkData& data = data_of(context);
  ScratchScope scope(arena);
  Work work;
  GS_TRY(take_work(data, arena, &work));
  return mean_gradient(shape.size(), batch, out, [&](uint32_t index) {
    GS_TRY(take_sample(data, x, index, work).status());
    add_gradient(data, x, work, out);
    return Status::kOk;
  });
}

Status find_fault(const void* context, Shape, Arena& arena, SampleFault* out) {
  const NetworkData& data = data_of(context);
  const IndexRule rules[] = {{"label", kImageSide * kImageSide, data.widths[0]}};
  return find_sample_fault(data.source, rules, arena, out);
}

}  // namespace

uint32_t lenet_size(uint16_t class_count) {
  const uint16_t widths[] = {kFeatureCount, 120, 84, class_count};
  const uint32_t tail = perceptron_size(widths, 4);
  return tail == 0 ? 0 : kConvolutionSize + tail;
}

const ProblemOps kLenetOps = {
    "lenet",      sample_count, check_shape, scratch_size, loss, gradient, kIsBareMetal ? nullptr : find_fault,
    !kIsBareMetal};

}  // namespace gradstream
