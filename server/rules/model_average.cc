#include "runtime/base/no_contraction.h"

#include "server/rules/model_average.h"

#include <algorithm>

#include "runtime/base/products.h"
#include "server/rules/delay_correction.h"
#include "server/run/average_keys.h"
#include "server/run/run_core.h"

namespace gradstream {

bool ModelAverage::is_taken(uint32_t version) const {
  return parameters_.average->average_period != 0 && version >= parameters_.average->average_from &&
         version % parameters_.average->average_period == 0;
}

bool ModelAverage::is_restart(uint32_t version) const {
  return parameters_.average->average_restart != 0 && version % parameters_.average->average_restart == 0 &&
         (count_ > 0 || is_taken(version));
}

bool ModelAverage::mixed(const Real* theta, std::vector<Real>* out) const {
  const size_t size = parameters_.model->shape.size();
  out->assign(theta, theta + size);
  if (count_ == 0) {
    return true;
  }
  const DelayCorrection geometry(DelayRule::kFedAsync, 1, *server_manifold(parameters_), parameters_.model->shape);
  const Real share = 1 / static_cast<Real>(count_ + 1);
  const Status status = geometry.approach(model_.data(), share, theta, out->data(), arena_);
  if (status != Status::kOk || !all_finite(size, out->data())) {
    *out = model_;
    return false;
  }
  return true;
}

bool ModelAverage::replace(uint32_t version, Real* theta) const {
  if (!is_restart(version)) {
    return false;
  }
  std::vector<Real> average = model_;
  if (is_taken(version)) {
    static_cast<void>(mixed(theta, &average));
  }
  std::copy(average.begin(), average.end(), theta);
  return true;
}

void ModelAverage::follow(uint32_t version, const Real* model) {
  const bool takes = is_taken(version);
  bool has_mixed = takes;
  if (is_restart(version)) {
    model_.assign(model, model + parameters_.model->shape.size());
  } else if (takes) {
    std::vector<Real> next;
    has_mixed = mixed(model, &next);
    model_ = std::move(next);
  }
  if (has_mixed) {
    ++count_;
    last_version_ = version;
  }
}

void ModelAverage::exchange(StateArchive& io) {
  io.values(count_, last_version_);
  io.numbers(model_);
  if ((count_ > 0) != !model_.empty() || (!model_.empty() && model_.size() != parameters_.model->shape.size())) {
    io.fail();
  }
}

std::string ModelAverage::text() const {
  if (count_ == 0) {
    return "none";
  }
  const std::string to = " to " + std::to_string(last_version_);
  return "the mean of " + std::to_string(count_) + " versions, one of every " +
         std::to_string(parameters_.average->average_period) + " from " +
         std::to_string(parameters_.average->average_from) + to +
         (parameters_.average->average_restart == 0
              ? ""
              : ", the run set to it every " + std::to_string(parameters_.average->average_restart));
}

}  // namespace gradstream
