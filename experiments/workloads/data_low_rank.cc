#include "experiments/workloads/data_low_rank.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/manifold/fixed_rank.h"

namespace gradstream {
namespace {

constexpr uint32_t kImageCount = 10000;
constexpr uint32_t kTrainCount = 8000;
constexpr Eigen::Index kSide = 28;
constexpr Eigen::Index kInputSide = kSide / 2;
constexpr size_t kImageHeaderSize = 16;
constexpr size_t kLabelHeaderSize = 8;
constexpr uint32_t kWidthCount = static_cast<uint32_t>(kLowRankWidths.size());

uint32_t inputs_of(uint32_t layer) { return kLowRankWidths[layer]; }
uint32_t outputs_of(uint32_t layer) { return kLowRankWidths[layer + 1]; }
uint32_t dense_size(uint32_t layer) { return inputs_of(layer) * outputs_of(layer); }
// Where the weights of a layer begin in the perceptron's own numbers.
size_t dense_offset(uint32_t layer) {
  size_t at = 0;
  for (uint32_t l = 0; l < layer; ++l) {
    at += dense_size(l) + outputs_of(l);
  }
  return at;
}

// W = U diag(values) V' of the `rank` largest singular values, by the eigenvectors of W'W. Near a matrix of the rank,
// where the next value is small, they are exact to rounding.
struct Leading {
  Eigen::VectorXd values;  // descending
  Eigen::MatrixXd u;
  Eigen::MatrixXd v;
};

bool decompose(const Matrix& w, uint32_t rank, Leading* out) {
  const Eigen::MatrixXd gram = w.transpose() * w;
  if (!gram.allFinite()) {
    return false;
  }
  const Eigenpairs pairs = symmetric_eigen(gram);
  const Eigen::Index first = gram.rows() - rank;
  if (!(pairs.values(first) > 0)) {
    return false;  // it has not the rank
  }
  out->values = pairs.values.tail(rank).reverse().cwiseSqrt();
  out->v = pairs.vectors.rightCols(rank).rowwise().reverse();
  out->u = w * out->v * out->values.cwiseInverse().asDiagonal();
  return true;
}

// I - 2 v v' takes the vector to a multiple of its first unit vector, of the other sign. Empty: it is one already.
Eigen::VectorXd reflector(const Eigen::VectorXd& x) {
  const double rest = x.tail(x.size() - 1).norm();
  if (rest == 0) {
    return {};
  }
  Eigen::VectorXd v = x;
  v(0) += std::copysign(std::hypot(x(0), rest), x(0));
  return v.normalized();
}

// The column of Q that belongs to the middle row of the upper bidiagonal B, w = Q B P'. By Householder reflections as
// LAPACK's dgesdd makes them, of a tall matrix after its triangular factor.
Eigen::VectorXd middle_direction(const Matrix& w) {
  const Eigen::Index cols = w.cols();
  Eigen::MatrixXd a = w;
  Eigen::MatrixXd q = Eigen::MatrixXd::Identity(w.rows(), w.rows());
  const auto reflect_rows = [&](Eigen::Index i) {
    const Eigen::VectorXd v = reflector(a.col(i).tail(a.rows() - i));
    if (v.size() > 0) {
      a.bottomRows(v.size()) -= 2 * v * (v.transpose() * a.bottomRows(v.size()));
      q.rightCols(v.size()) -= 2 * (q.rightCols(v.size()) * v) * v.transpose();
    }
    a.col(i).tail(a.rows() - i - 1).setZero();
  };
  if (w.rows() >= cols * 11 / 6) {  // dgesdd's own bound
    for (Eigen::Index i = 0; i < cols; ++i) {
      reflect_rows(i);
    }
    a = a.topRows(cols).eval();
    q = q.leftCols(cols).eval();
  }
  for (Eigen::Index i = 0; i + 1 < cols; ++i) {
    reflect_rows(i);
    const Eigen::VectorXd v = reflector(a.row(i).tail(cols - i - 1));
    if (v.size() > 0) {
      a.rightCols(v.size()) -= 2 * (a.rightCols(v.size()) * v) * v.transpose();
    }
  }
  reflect_rows(cols - 1);
  return q.col(cols / 2);
}

// Gives each pair of singular vectors the sign that LAPACK's dgesdd gives it, since directions perturb their entries:
// it halves B at its middle row, in which the left vectors of B then have a negative entry. For 26 to 51 columns.
void orient(const Matrix& w, Leading* out) {
  const Eigen::RowVectorXd along = middle_direction(w).transpose() * out->u;
  for (Eigen::Index k = 0; k < along.size(); ++k) {
    if (along(k) > 0) {
      out->u.col(k) *= -1;
      out->v.col(k) *= -1;
    }
  }
}

// Orthonormal columns of the same span, by Gram and Schmidt twice. False: they are dependent.
bool orthonormalize(Eigen::MatrixXd* q) {
  for (Eigen::Index k = 0; k < q->cols(); ++k) {
    for (int pass = 0; pass < 2; ++pass) {
      const Eigen::VectorXd along = q->leftCols(k).transpose() * q->col(k);
      q->col(k) -= q->leftCols(k) * along;
    }
    const double norm = q->col(k).norm();
    if (!(norm > 0)) {
      return false;
    }
    q->col(k) /= norm;
  }
  return true;
}

// The `rank` leading right singular vectors, up to a rotation of them: orthogonal iteration on W'W from its columns of
// the most weight. A displaced point is near the set, so that few turns make it exact, for a third of the work of all
// eigenvectors. Those are taken where it does not settle. Empty: the matrix has not the rank.
Eigen::MatrixXd leading_right(const Matrix& w, uint32_t rank) {
  constexpr int kTurnsMax = 40;
  constexpr double kSettled = 1e-14;
  const Eigen::MatrixXd gram = w.transpose() * w;
  Eigen::MatrixXd rest = gram;
  Eigen::MatrixXd q(gram.rows(), rank);
  for (Eigen::Index k = 0; k < rank; ++k) {
    Eigen::Index largest = 0;
    const double weight = rest.colwise().squaredNorm().maxCoeff(&largest);
    if (!(weight > 0)) {
      return {};
    }
    q.col(k) = rest.col(largest) / std::sqrt(weight);
    rest -= q.col(k) * (q.col(k).transpose() * rest).eval();
  }
  for (int turn = 0; turn < kTurnsMax; ++turn) {
    Eigen::MatrixXd next = gram * q;
    if (!orthonormalize(&next)) {
      return {};
    }
    const double moved = (next - q * (q.transpose() * next)).norm();
    q = std::move(next);
    if (moved < kSettled) {
      return q;
    }
  }
  Leading leading;
  return decompose(w, rank, &leading) ? leading.v : Eigen::MatrixXd();
}

using RealMatrix = Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// P_M of the dense form: W V V' of both matrices, V their leading right singular vectors.
template <uint32_t kRank>
Status truncate(Shape shape, const Real* z, Real* out, Arena&) {
  std::copy_n(z, shape.size(), out);
  for (uint32_t layer = 0; layer < kLowRankLayerCount; ++layer) {
    Eigen::Map<RealMatrix> block(out + dense_offset(layer), inputs_of(layer), outputs_of(layer));
    const Matrix w = block.template cast<double>();
    if (!std::isfinite(w.squaredNorm())) {
      return Status::kNotFinite;
    }
    const Eigen::MatrixXd v = leading_right(w, kRank);
    if (v.size() == 0) {
      return Status::kSingular;
    }
    block = ((w * v) * v.transpose()).template cast<Real>();
  }
  return Status::kOk;
}

// Euclidean space with another P_M. Only what solver projection asks of a set is meant: no tangent space is.
template <uint32_t kRank>
const ManifoldOps& dense_set() {
  static const ManifoldOps kSet = [] {
    ManifoldOps set = kEuclideanOps;
    set.name = "low_rank";
    set.project_point = truncate<kRank>;
    return set;
  }();
  return kSet;
}

// The share of the samples whose largest score is the label's.
double share_right(const NetworkData& test, const Matrix& dense) {
  using Map = Eigen::Map<const Matrix>;
  const uint32_t count = test.source.count;
  Matrix h(count, test.source.dimension);
  std::vector<Real> sample(test.source.dimension);
  for (uint32_t i = 0; i < count; ++i) {
    GS_ASSERT(test.source.read(test.source.context, i, sample.data()) == Status::kOk);
    std::copy(sample.begin(), sample.end(), h.row(i).data());
  }
  const Eigen::VectorXd labels = h.col(h.cols() - 1);
  h = h.leftCols(h.cols() - 1).eval();
  for (uint32_t layer = 0; layer + 1 < kWidthCount; ++layer) {
    const double* const at = dense.data() + dense_offset(layer);
    const Map weights(at, inputs_of(layer), outputs_of(layer));
    const Eigen::Map<const Eigen::RowVectorXd> biases(at + dense_size(layer), outputs_of(layer));
    Matrix next = h * weights;
    next.rowwise() += biases;
    h = layer + 2 < kWidthCount ? Matrix(next.cwiseMax(0)) : next;
  }
  uint32_t right = 0;
  for (Eigen::Index i = 0; i < h.rows(); ++i) {
    Eigen::Index best = 0;
    h.row(i).maxCoeff(&best);
    right += static_cast<double>(best) == labels(i) ? 1 : 0;
  }
  return static_cast<double>(right) / count;
}

}  // namespace

std::unique_ptr<LowRankImages> read_low_rank_images(const std::string& folder) {
  const std::string images = read_file(folder + "/mnist/t10k-images-idx3-ubyte.gz");
  const std::string labels = read_file(folder + "/mnist/t10k-labels-idx1-ubyte.gz");
  if (images.size() < kImageHeaderSize + size_t{kImageCount} * kSide * kSide ||
      labels.size() < kLabelHeaderSize + kImageCount) {
    return nullptr;
  }
  Matrix all(kImageCount, kLowRankWidths[0] + 1);
  const auto* pixel = reinterpret_cast<const uint8_t*>(images.data()) + kImageHeaderSize;
  for (uint32_t i = 0; i < kImageCount; ++i, pixel += kSide * kSide) {
    for (Eigen::Index p = 0; p < kLowRankWidths[0]; ++p) {
      const uint8_t* const at = pixel + 2 * (p / kInputSide) * kSide + 2 * (p % kInputSide);
      all(i, p) = (at[0] + at[1] + at[kSide] + at[kSide + 1]) / 4.0 / 255.0;
    }
    all(i, kLowRankWidths[0]) = static_cast<uint8_t>(labels[kLabelHeaderSize + i]);
  }
  auto out = std::make_unique<LowRankImages>();
  out->train = all.topRows(kTrainCount);
  out->test = all.bottomRows(kImageCount - kTrainCount);
  return out;
}

LowRankSamples::LowRankSamples(const LowRankImages& images, uint32_t device_count, uint32_t seed) {
  const auto train_count = static_cast<uint32_t>(images.train.rows());
  GS_ASSERT(device_count * kLowRankDeviceSamples <= train_count);
  const std::vector<uint32_t> order = chosen({seed, RandomDomain::kData, 0, 0, 0}, train_count, train_count);
  Matrix rows(kLowRankDeviceSamples, images.train.cols());
  for (uint32_t device = 0; device < device_count; ++device) {
    for (uint32_t i = 0; i < kLowRankDeviceSamples; ++i) {
      rows.row(i) = images.train.row(order[device * kLowRankDeviceSamples + i]);
    }
    stored.push_back(std::make_unique<StoredSamples>(rows));
  }
  stored.push_back(std::make_unique<StoredSamples>(images.test));
  for (const auto& one : stored) {
    data.push_back({one->source, kLowRankWidths.data(), kWidthCount});
  }
}

uint32_t low_rank_size(LowRankForm form, uint32_t rank) {
  uint32_t size = 0;
  for (uint32_t layer = 0; layer + 1 < kWidthCount; ++layer) {
    const bool has_factors = form == LowRankForm::kFactored && layer < kLowRankLayerCount;
    size += has_factors ? (inputs_of(layer) + outputs_of(layer) + rank) * rank : dense_size(layer);
    size += outputs_of(layer);
  }
  return size;
}

// The perceptron at a point whose first matrices are factors: it multiplies them out.
struct LowRankWorkload::Factored {
  using Data = FactoredData;
  static const Data& data_of(const void* context) { return *static_cast<const Data*>(context); }
  static Shape dense_shape() { return {low_rank_size(LowRankForm::kDense, 0), 1, nullptr}; }

  static uint32_t sample_count(const void* context) { return data_of(context).network->source.count; }
  static Status check_shape(const void* context, Shape shape) {
    return shape.size() == data_of(context).workload->shape().size() ? Status::kOk : Status::kInvalidArgument;
  }
  static size_t scratch_size(const void* context, Shape) {
    return Arena::taken_size<Real>(dense_shape().size()) +
           kPerceptronOps.scratch_size(data_of(context).network, dense_shape());
  }
  // dense <- the perceptron's own numbers.
  static void multiply_out(const LowRankWorkload& workload, const Real* x, Real* dense) {
    for (const Part& part : workload.parts_.list()) {
      const bool has_factors = part.ops->id == ManifoldId::kFixedRank;
      if (has_factors) {
        fixed_rank_to_dense(part.shape, x, dense);
        dense += size_t{part.shape.parts->part[0].shape.rows} * part.shape.parts->part[1].shape.rows;
      } else {
        dense = std::copy_n(x, part.shape.size(), dense);
      }
      x += part.shape.size();
    }
  }
  static Result<Real> loss(const void* context, Shape, const Real* x, Batch batch, Arena& arena) {
    ScratchScope scope(arena);
    const Result<Real*> dense = arena.scratch<Real>(dense_shape().size());
    GS_TRY(dense.status());
    multiply_out(*data_of(context).workload, x, dense.value());
    return kPerceptronOps.loss(data_of(context).network, dense_shape(), dense.value(), batch, arena);
  }
};

const ProblemOps LowRankWorkload::kFactoredOps = {
    "factored", Factored::sample_count, Factored::check_shape, Factored::scratch_size, Factored::loss, nullptr};

LowRankWorkload::LowRankWorkload(LowRankForm form, uint32_t rank, uint32_t device_count,
                                 std::shared_ptr<const LowRankSamples> samples, uint32_t seed)
    : form_(form), rank_(rank), device_count_(device_count), seed_(seed), samples_(std::move(samples)) {
  GS_ASSERT(form != LowRankForm::kDense || rank == 2 || rank == 8 || rank == 16);  // dense_set() is made for these
  GS_ASSERT(device_count < samples_->data.size());
  for (uint32_t layer = 0; layer + 1 < kWidthCount; ++layer) {
    Part& weights = parts_.part[parts_.count++];
    if (layer < kLowRankLayerCount) {
      factors_[layer] = fixed_rank_parts(inputs_of(layer), outputs_of(layer), rank);
      weights = {&kFixedRankOps, fixed_rank_shape(factors_[layer])};
    } else {
      weights = {&kEuclideanOps, {inputs_of(layer), outputs_of(layer)}};
    }
    parts_.part[parts_.count++] = {&kEuclideanOps, {outputs_of(layer), 1}};
  }
  for (uint32_t device = 0; device < device_count; ++device) {
    factored_.push_back({&samples_->data[device], this});
  }
}

Problem LowRankWorkload::problem(uint32_t device) const {
  return form_ == LowRankForm::kFactored ? Problem{&kFactoredOps, &factored_[device]}
                                         : Problem{&kPerceptronOps, &samples_->data[device]};
}

const ManifoldOps& LowRankWorkload::set() const {
  return form_ == LowRankForm::kFactored ? kProductOps
         : form_ == LowRankForm::kFull   ? kEuclideanOps
         : rank_ == 2                    ? dense_set<2>()
         : rank_ == 8                    ? dense_set<8>()
                                         : dense_set<16>();
}

// He's for the layers before a max(0, .); the constrained ones truncated and made as long as before.
Matrix LowRankWorkload::start() const {
  Matrix x = Matrix::Zero(static_cast<Eigen::Index>(shape().size()), 1);
  Eigen::Index at = 0;
  const auto put = [&](const Eigen::MatrixXd& block) {
    Eigen::Map<Matrix>(x.data() + at, block.rows(), block.cols()) = block;
    at += block.size();
  };
  for (uint32_t layer = 0; layer + 1 < kWidthCount; ++layer) {
    const double gain = layer + 2 < kWidthCount ? 2 : 1;
    const Matrix w = std::sqrt(gain / inputs_of(layer)) *
                     normals({seed_, RandomDomain::kInitialPoint, layer, 0, 0}, inputs_of(layer), outputs_of(layer));
    if (form_ == LowRankForm::kFull || layer >= kLowRankLayerCount) {
      put(w);
    } else {
      Leading leading;
      GS_ASSERT(decompose(w, rank_, &leading));  // of normals, which have any rank
      leading.values *= w.norm() / leading.values.norm();
      if (form_ == LowRankForm::kDense) {
        put(leading.u * leading.values.asDiagonal() * leading.v.transpose());
      } else {
        orient(w, &leading);
        put(leading.u);
        put(leading.v);
        put(leading.values.asDiagonal().toDenseMatrix());
      }
    }
    at += outputs_of(layer);  // biases 0
  }
  return x;
}

Measures LowRankWorkload::measure(const Matrix& model) const {
  std::vector<Real> x(static_cast<size_t>(model.size()));
  std::transform(model.data(), model.data() + model.size(), x.begin(), [](double v) { return static_cast<Real>(v); });
  std::vector<Real> dense(x);
  if (form_ == LowRankForm::kFactored) {
    dense.resize(Factored::dense_shape().size());
    Factored::multiply_out(*this, x.data(), dense.data());
  }
  Measures measures;
  double sum = 0;
  for (uint32_t device = 0; device < device_count_; ++device) {
    const NetworkData& data = samples_->data[device];
    std::vector<uint64_t> memory(kPerceptronOps.scratch_size(&data, Factored::dense_shape()) / 8 + 1);
    Arena arena(memory.data(), memory.size() * sizeof(uint64_t));
    const Result<Real> loss =
        kPerceptronOps.loss(&data, Factored::dense_shape(), dense.data(), {nullptr, data.source.count}, arena);
    sum += loss.ok() ? static_cast<double>(loss.value()) : std::numeric_limits<double>::quiet_NaN();
  }
  measures.excess = sum / device_count_;
  measures.grad_norm = std::numeric_limits<double>::quiet_NaN();
  const Matrix wide =
      Eigen::Map<const RealMatrix>(dense.data(), static_cast<Eigen::Index>(dense.size()), 1).template cast<double>();
  measures.other = share_right(samples_->data.back(), wide);
  return measures;
}

}  // namespace gradstream
