// Figures of an independent reference in double: hyperbolic space, Lorentz model, 5 x 1. kFarX and kFarY are space
// parts of two near points far from the origin, kFarChordSquared is |x - y|_L^2 of them.
#ifndef GRADSTREAM_TESTS_GOLDEN_HYPERBOLIC_VECTORS_H_
#define GRADSTREAM_TESTS_GOLDEN_HYPERBOLIC_VECTORS_H_

namespace gradstream::golden::hyperbolic {

inline constexpr double kX[] = {
    3.789307499830811, -1.6353827301866048, -2.158058505819862, -0.4856734735339753, -2.406507722124619,
};
inline constexpr double kY[] = {
    2.6543545124936507, -1.2248404183162978, -1.2671545862403164, 1.7129133971244381, -0.074905114484352,
};
inline constexpr double kInner = -5.972145724039461;
inline constexpr double kDistance = 2.473169220957612;
inline constexpr double kAmbient[] = {
    1.027478915415702, -0.2063102381100553, 0.9204442014194981, -0.5361160421942163, -1.4063927893084,
};
inline constexpr double kProjected[] = {
    -6.162873593882356, 2.896889572986033, 5.015440818407349, 0.38546751345030317, 3.160045495047383,
};
inline constexpr double kLog[] = {
    -8.390849871470465, 3.588007521564478, 4.881410933436542, 1.9378593574095448, 6.005469007169312,
};
inline constexpr double kU[] = {
    -1.9849713604419617, 2.1462601440001094, 0.43529756590785135, -0.10114021275598198, 1.297080231308686,
};
inline constexpr double kTransported[] = {
    -0.3047746221751093, 1.4004516897953052, -0.45783305673205094, 0.21886485776814954, 0.650047263659303,
};
inline constexpr double kEuclideanGradient[] = {
    0.9068054954771758, -2.459863677921249, 0.20504066601065407, -0.4024526595601584, -1.772872409840458,
};
inline constexpr double kGradient[] = {
    42.58832644272086, -21.23141695568845, -24.565986611447403, -5.9771999745211035, -29.395695548046106,
};
inline constexpr double kFarX[] = {
    262.22779466870816,
    -183.19513278092566,
    -1.421605753380631,
    34.32275879430448,
};
inline constexpr double kFarY[] = {
    262.2513805681711,
    -183.188696415346,
    -1.419463960317532,
    34.32253314644557,
};
inline constexpr double kFarChordSquared = 0.0003612928210514685;

}  // namespace gradstream::golden::hyperbolic

#endif  // GRADSTREAM_TESTS_GOLDEN_HYPERBOLIC_VECTORS_H_
