// A network as a problem: with samples, and its loss by the plain formulas.
#ifndef GRADSTREAM_TESTS_SUPPORT_NETWORK_PROBLEM_H_
#define GRADSTREAM_TESTS_SUPPORT_NETWORK_PROBLEM_H_

#include <functional>
#include <memory>
#include <vector>

#include "tests/support/network_support.h"

namespace gradstream {

// A network with samples: inputs from numbers(), targets from target(sample, target).
struct NetworkCase : TestNetwork {
  using Build = std::function<void(NetworkCase&)>;
  NetworkCase(Volume in, const Build& build, uint32_t count = 6, NetworkLoss loss = NetworkLoss::kSoftmax)
      : TestNetwork(in) {
    build(*this);
    network.loss = loss;
    EXPECT_EQ(check_network(network).code, NetworkFaultCode::kNone) << network_fault_text(check_network(network).code);
    const uint32_t inputs = network_input_count(network);
    const uint32_t targets = network_target_count(network);
    const std::vector<Real> values = numbers(size_t{count} * inputs, 77, 3);
    std::vector<Real> rows;
    for (uint32_t i = 0; i < count; ++i) {
      rows.insert(rows.end(), values.begin() + i * inputs, values.begin() + (i + 1) * inputs);
      for (uint32_t t = 0; t < targets; ++t) rows.push_back(target(i, t));
    }
    samples = std::make_unique<TestSamples>(count, inputs + targets, rows);
    data = {&network, samples->source, kKeptSampleCountMax};
    const uint32_t size = network_size(network);
    problem_case = {{&kNetworkOps, &data}, {size, 1}, start()};
    EXPECT_EQ(kNetworkOps.check_shape(&data, {size, 1}), Status::kOk);
  }
  Real target(uint32_t sample, uint32_t at) const {
    const uint32_t number = 3 * sample + at;
    switch (network.loss) {
      case NetworkLoss::kSoftmax:
        return static_cast<Real>(number % network_score_count(network));
      case NetworkLoss::kLogistic:
        return static_cast<Real>(number % 2);
      default:
        return static_cast<Real>(number % 5) / 4;
    }
  }
  const Real* row(uint32_t sample) const { return samples->values.data() + sample * samples->source.dimension; }
  // The loss of a sample by the plain formulas.
  double plain_loss(uint32_t sample) const {
    const Doubles s = plain_scores(network, problem_case.x.data(), row(sample));
    const Real* const targets = row(sample) + network_input_count(network);
    double total = 0;
    for (size_t c = 0; c < s.size(); ++c) {
      const double y = network.loss == NetworkLoss::kSoftmax ? 0 : static_cast<double>(targets[c]);
      switch (network.loss) {
        case NetworkLoss::kSoftmax:
          total += std::exp(s[c] - s[static_cast<size_t>(targets[0])]);
          break;
        case NetworkLoss::kLogistic:
          total += std::log1p(std::exp((1 - 2 * y) * s[c]));
          break;
        default:
          total += 0.5 * (s[c] - y) * (s[c] - y);
      }
    }
    return network.loss == NetworkLoss::kSoftmax ? std::log(total) : total;
  }
  double plain_mean() const {
    double sum = 0;
    for (uint32_t i = 0; i < samples->source.count; ++i) sum += plain_loss(i);
    return sum / samples->source.count;
  }

  std::unique_ptr<TestSamples> samples;
  NetworkSamples data;
  ProblemCase problem_case;
};

}  // namespace gradstream

#endif  // GRADSTREAM_TESTS_SUPPORT_NETWORK_PROBLEM_H_
