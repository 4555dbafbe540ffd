// Asynchronous rules in R^5 (algorithm A11), by an independent implementation in double.
#ifndef GRADSTREAM_TESTS_GOLDEN_DELAY_VECTORS_H_
#define GRADSTREAM_TESTS_GOLDEN_DELAY_VECTORS_H_

namespace gradstream::golden {

constexpr double kBase[] = {0.04792801410346556, -0.548953440411879, 0.3416945284633797, 0.33242159167483065,
                            0.6415628197160211};
constexpr double kCurrent[] = {-0.6624612540967575, -1.1848580865491065, -0.5590562848938816, 0.4724965128509486,
                               0.02855920989231975};
constexpr double kEnd[] = {0.09850979801629013, 0.9375485615251289, 1.4242188169520835, 0.062213198605652116,
                           -0.7986189300530997};
// After a step of alpha = 0.6; delay-compensated with lambda = 0.2.
constexpr double kFedAsync[] = {-0.20587862282892894, 0.08858590229543473, 0.6309087762136975, 0.22632652430377073,
                                -0.4677476740749319};
constexpr double kAsgd[] = {-0.6321121837490628, -0.2929568853869018, 0.09045828819934065, 0.3103714770094415,
                            -0.8355498399691528};
constexpr double kDcAsgd[] = {-0.6318940785983561, -0.12433876610503747, 0.21712462406943422, 0.309144209315368,
                              -0.6829764188753509};
// Directions: in conflict with the drift, and, with the displacement turned round, not.
constexpr double kOrthoGrad[] = {0.32254796249229956, -1.1524950708467312, -0.6094077344989337, 0.19663447781482893,
                                 1.7621599829967038};
constexpr double kTurnedOrthoGrad[] = {0.05058178391282457, 1.4865020019370079, 1.0825242884887039,
                                       -0.27020839306917854, -1.440181749769121};
constexpr double kOrthoPos[] = {0.32254796249229956, -1.1524950708467312, -0.6094077344989337, 0.19663447781482893,
                                1.7621599829967038};
constexpr double kTurnedOrthoPos[] = {-0.6598074842873985, 0.8505973557997804, 0.1817734751314426, -0.13013347189306057,
                                      -2.0531853595928222};
constexpr double kOrthoStrict[] = {0.32254796249229956, -1.1524950708467312, -0.6094077344989337, 0.19663447781482893,
                                   1.7621599829967038};
constexpr double kTurnedOrthoStrict[] = {-0.32254796249229956, 1.1524950708467312, 0.6094077344989337,
                                         -0.19663447781482893, -1.7621599829967038};

}  // namespace gradstream::golden

#endif  // GRADSTREAM_TESTS_GOLDEN_DELAY_VECTORS_H_
