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

// Rules with moments, lambda = 0.2: the update above, then one of base kCurrent at kSecondCurrent. The bound of 1 holds
// two entries of the first, and all of the first of rank 1.
constexpr double kSecondCurrent[] = {-0.3, -0.9, 0.1, 0.25, 0.4};
constexpr double kSecondEnd[] = {0.5, -1.0, -0.2, 0.3, -0.6};
constexpr double kDcAdaptiveFirst[] = {-0.08270846403029579, -2.1224066480742354, -1.9546657538325491,
                                       0.30406147925072446, 0.8271781399454196};
constexpr double kDcAdaptiveSecond[] = {-0.7999999999999998, -0.17889712231674468, -0.2908697420279744,
                                        0.15368817576808455, 0.7139016294291693};
constexpr double kDcAdaptiveMoments[] = {0.06768733791484098, 0.10666881519185963, 0.0621093654565686,
                                         0.00495584969232569, 0.11827519895450508};
constexpr double kDcRank1First[] = {-0.060744371093134276, -1.7851610253993966, -1.3000185444352585,
                                    0.32449703492786736, 1.7295343873262325};
constexpr double kDcRank1Second[] = {-0.9626076349085678, -0.1530767626530694, -0.2973263151633506, 0.14284042558859014,
                                     0.5204955367777636};
constexpr double kDcRank1Moments[] = {0.35969656721009996};

}  // namespace gradstream::golden

#endif  // GRADSTREAM_TESTS_GOLDEN_DELAY_VECTORS_H_
