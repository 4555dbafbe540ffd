// The mean of a small sample, and how far from it the true mean may be.
#ifndef GRADSTREAM_EXPERIMENTS_HARNESS_INTERVAL_H_
#define GRADSTREAM_EXPERIMENTS_HARNESS_INTERVAL_H_

#include <cstdint>
#include <string>
#include <vector>

namespace gradstream {

// mean - half to mean + half has the true mean of independent normal values with the probability that was asked for.
struct Interval {
  double mean = 0;
  double half = 0;  // infinite for a single value
  double low() const { return mean - half; }
  double high() const { return mean + half; }
};

// By Student's distribution. values: one at least; probability: in (0, 1).
Interval interval_of_mean(const std::vector<double>& values, double probability);

// t with P(|T| <= t) = probability, T of Student's distribution with so many degrees of freedom, 1 at least.
double student_quantile(uint32_t freedom, double probability);

// "1.010 +- 0.018, 0.992 to 1.028".
std::string text_of(const Interval& interval);

}  // namespace gradstream

#endif  // GRADSTREAM_EXPERIMENTS_HARNESS_INTERVAL_H_
