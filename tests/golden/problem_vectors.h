// Figures of an independent reference in double: losses and Euclidean gradients of the problems, at the data that
// tests/<problem>_test.cc draws from the shared random stream (seed 1, domain kData, the owner that it names).
#ifndef GRADSTREAM_TESTS_GOLDEN_PROBLEM_VECTORS_H_
#define GRADSTREAM_TESTS_GOLDEN_PROBLEM_VECTORS_H_

namespace gradstream::golden::problem {

inline constexpr double kBrockettLoss = 17.987704628779113;
inline constexpr double kBrockettGradient[] = {
    -11.269939895890115, -14.423429440659385, -10.627459670689698, 1.4840272723592582, -5.840278787892353,
    -1.5755832408770378, -2.2511323543564883, 10.027889633199623,  6.9018387596001425, 5.379188438709541};
inline constexpr double kSpdMeanLoss = 13.978888131480572;
inline constexpr double kSpdMeanGradient[] = {0.5523592833045351,    0.049800798625643294, -0.017507509535917273,
                                              0.04980079862564338,   0.35324931074730065,  -0.4813210538161059,
                                              -0.017507509535917412, -0.4813210538161058,  -0.795577348589322};
inline constexpr double kMultitaskLoss = 0.39416370389402827;
inline constexpr double kMultitaskGradient[] = {0.012679847281155255,  -0.024332103834645322, -0.0061827002181678815,
                                                0.03970643364250937,   -0.006797005061107956, 0.04175726462207081,
                                                -0.015230483008376159, -0.011373096274726479, 0.05374814005315878,
                                                0.0001550731728903893, -0.041500708862277254, 0.01687144908440536};
inline constexpr double kMultitaskRidgeLoss = 0.3942836502328941;
inline constexpr double kMultitaskRidgeGradient[] = {
    0.013830703770492411,  -0.023464362264928814, -0.013448476398649266, 0.03840101013179479,
    0.0017921649794562858, 0.04367555708888845,   -0.01898569753605951,  -0.012258739437027918,
    0.05536693077892254,   0.0006838206170612741, -0.04192082157432043,  0.016653375293523145};
inline constexpr double kHyperbolicLoss = 0.2622955826811214;
inline constexpr double kHyperbolicGradient[] = {-0.8325227418891015, -0.4535753159210662, -0.8557473233993192};
inline constexpr double kLeastSquaresLoss = 5.8837098679140025;
inline constexpr double kLeastSquaresGradient[] = {0.6837432993562466,  -1.5953262402169397, 0.2973476902614582,
                                                   -1.2047406742034312, 1.382712796197611,   -1.4478809098857917,
                                                   2.117447077297416,   -0.22555088379336627};
inline constexpr double kLogisticLoss = 2.8732277501988652;
inline constexpr double kLogisticGradient[] = {-0.3136101566290663, -0.6725019669603794, 0.06070188473179986,
                                               -0.7066886755886221};
inline constexpr double kSoftmaxLoss = 2.2215273528443187;
inline constexpr double kSoftmaxGradient[] = {-0.11797237521840574, -0.3557550926049606, 0.4737274678233663,
                                              0.0748680043189147,   0.2396874298070171,  -0.3145554341259318,
                                              0.025699311936281412, 0.18360970892413508, -0.20930902086041644,
                                              0.20331788513038482,  0.3126490920178067,  -0.5159669771481915};

}  // namespace gradstream::golden::problem

#endif  // GRADSTREAM_TESTS_GOLDEN_PROBLEM_VECTORS_H_
