// Losses and metrics on held-out samples by numpy in double. tests/runtime/evaluation_test.cc says which data: they
// come from a linear congruential generator, so that both sides make them.
#ifndef GRADSTREAM_TESTS_GOLDEN_QUALITY_VECTORS_H_
#define GRADSTREAM_TESTS_GOLDEN_QUALITY_VECTORS_H_

namespace gradstream::golden::quality {

struct Figures {
  unsigned sample_count;
  double loss;
  double metric;
};

inline constexpr Figures kKpca = {69, -1.3709895447381257, 0.35068059720941974};
inline constexpr Figures kLeastSquares = {69, 7.685497007827049, 2.7722728956268083};
inline constexpr Figures kLogistic = {69, 1.6474009721372074, 0.4782608695652174};
inline constexpr Figures kSoftmax = {69, 2.1200211603259937, 0.391304347826087};
inline constexpr Figures kTies = {69, 1.0986122886681091, 0.3333333333333333};
inline constexpr Figures kPerceptron = {69, 3.9596642403064313, 0.3333333333333333};
inline constexpr Figures kSpdMean = {13, 5.432337762961845, 2.245961939132009};
inline constexpr Figures kHyperbolic = {69, 1.784388865915534, 1.1668148399964753};
inline constexpr Figures kBrockett = {69, -0.5301987541067155, -0.5301987541067155};
inline constexpr Figures kCompletion = {69, 2.1378382984146116, 2.1378382984146116};

}  // namespace gradstream::golden::quality

#endif  // GRADSTREAM_TESTS_GOLDEN_QUALITY_VECTORS_H_
