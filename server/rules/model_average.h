// The running average of a run's versions (SWA; 004, A12; docs/algorithms.md, "Averages of versions"), on any manifold.
//
//   version v >= average_from, v = 0 mod average_period:   S <- A(S, Theta^v, 1 / (n + 1)), n <- n + 1
//   v = 0 mod average_restart, n > 0:                      Theta^v <- S           (periodic SWA)
//
// A(x, y, share) is the point `share` of the way from x to y (DelayCorrection::approach), in Euclidean space
// (n S + Theta) / (n + 1). A function of the versions in their order: recovery has it again. Memory: one model.
#ifndef GRADSTREAM_SERVER_RULES_MODEL_AVERAGE_H_
#define GRADSTREAM_SERVER_RULES_MODEL_AVERAGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/arena.h"
#include "server/base/state_archive.h"
#include "server/run/run_parameters.h"

namespace gradstream {

class ModelAverage {
 public:
  // parameters, arena: outlive this; the arena holds DelayCorrection::scratch_size().
  ModelAverage(const RunParameters& parameters, Arena& arena) : parameters_(parameters), arena_(arena) {}

  // Before a version is journalled that an aggregator made as theta (rows * cols): whether S with it takes its place.
  // Then theta becomes that S.
  bool replace(uint32_t version, Real* theta) const;
  // The version has opened with this model, S where replace() said so.
  void follow(uint32_t version, const Real* model);

  // All of it, of a checkpoint.
  void exchange(StateArchive& io);

  // n; 0: there is no average.
  uint32_t count() const { return count_; }
  uint32_t last_version() const { return last_version_; }  // that went into it
  const std::vector<Real>& model() const { return model_; }
  // "the mean of 12 versions, one of every 10 from 100 to 210"; "none" without one.
  std::string text() const;

 private:
  bool is_taken(uint32_t version) const;
  bool is_restart(uint32_t version) const;
  // S with theta in it. False: they are too far apart for the manifold's means, and S is as it was.
  bool mixed(const Real* theta, std::vector<Real>* out) const;

  const RunParameters& parameters_;
  Arena& arena_;
  uint32_t count_ = 0;
  uint32_t last_version_ = 0;
  std::vector<Real> model_;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RULES_MODEL_AVERAGE_H_
