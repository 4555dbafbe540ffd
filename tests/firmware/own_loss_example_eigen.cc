#include <gradstream/eigen.h>

using namespace gradstream;

// k-PCA: points of at most 64 x 4, samples of at most 64 values. f(x) = -1/(2 B) sum_b |z_b x|^2, z_b a row.
struct KpcaByEigen : EigenLoss<64, 4, 64> {
  static constexpr const char* kName = "kpca";
  bool fits(Shape shape, uint32_t dimension) const { return shape.rows == dimension && shape.cols <= shape.rows; }
  Real loss(const Point& x, const Samples& z) const {
    const EigenMatrix<1, 4> products = z * x;
    return -0.5F * products.squaredNorm();
  }
  void add_gradient(const Point& x, const Samples& z, Gradient& sum) const {
    const EigenMatrix<1, 4> products = z * x;
    sum.noalias() -= z.transpose() * products;
  }
  uint32_t units_count(uint32_t dimension) const { return dimension; }  // as gs_kpca: of all columns
};

constexpr ProblemOps kKpcaByEigenOps = make_problem_ops<EigenProblem<KpcaByEigen>>();

// config.problem = kpca_by_eigen(&samples); an image: -DGS_OWN_PROBLEM=kpca_by_eigen
extern "C" const gs_linked_problem* kpca_by_eigen(const gs_sample_source* samples) {
  static const EigenProblem<KpcaByEigen> problem(samples);
  static const gs_linked_problem linked = {{&kKpcaByEigenOps, &problem}};
  return &linked;
}
