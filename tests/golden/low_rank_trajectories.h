// Training losses at rounds 0 to 3 of an independent reference in double (docs/experiments.md, X13), on images that are
// no digits: two devices, m = 3, tau = 2, eta~ = 0.1 (factored 0.02). Of 8,050 images value p of image i is 0.3 times
// the uniform number 196 i + p of the stream (seed 7, domain kData, version 1), its label word i of the stream of
// version 2, modulo 10; the last 50 are to test. The last figure is the share of them that is named right at the start.
#ifndef GRADSTREAM_TESTS_GOLDEN_LOW_RANK_TRAJECTORIES_H_
#define GRADSTREAM_TESTS_GOLDEN_LOW_RANK_TRAJECTORIES_H_

#include <cstdint>

namespace gradstream::golden {

struct LowRankTrajectory {
  const char* name;
  uint32_t seed;
  double losses[4];
  double right;
};

inline constexpr LowRankTrajectory kLowRankTrajectories[] = {
    {"dense2", 1, {2.3516197116331, 2.3498886512148, 2.3466312273829, 2.3438437711024}, 0.1200},
    {"dense2", 7, {2.3038422178632, 2.3033494878409, 2.3025189222286, 2.3020168271025}, 0.0800},
    {"dense8", 1, {2.3343505916983, 2.3330957544588, 2.327560253409, 2.3253511567336}, 0.0000},
    {"dense8", 7, {2.3144145394951, 2.3104434729785, 2.3084347431613, 2.30811792044}, 0.0600},
    {"dense16", 1, {2.3126119523647, 2.3120432924797, 2.3109758446292, 2.3082728246651}, 0.0000},
    {"dense16", 7, {2.3293644086211, 2.3220506532129, 2.3211780177731, 2.3166051964953}, 0.0800},
    {"full", 1, {2.3079083270342, 2.3077640165825, 2.3062668152257, 2.3042396931774}, 0.0800},
    {"full", 7, {2.319330285998, 2.3147272475668, 2.3157543584698, 2.3148056061653}, 0.1800},
    {"factored", 1, {2.3343505916983, 2.3343120426217, 2.3297283998878, 2.3287748534565}, 0.0000},
    {"factored", 7, {2.3144145394951, 2.3107306423828, 2.3098296830662, 2.3058684579147}, 0.0600},
    {"shared", 1, {2.3343505916983, 2.3286183881011, 2.3201104258621, 2.3165967381211}, 0.0000},
    {"shared", 7, {2.3144145394951, 2.3091209615839, 2.3077553089964, 2.3052235361383}, 0.0600},
    {"server_step", 1, {2.3343505916983, 2.3330881704231, 2.3274252384686, 2.3252354037133}, 0.0000},
    {"server_step", 7, {2.3144145394951, 2.310485955002, 2.3084260028857, 2.3080607039805}, 0.0600},
};

}  // namespace gradstream::golden

#endif  // GRADSTREAM_TESTS_GOLDEN_LOW_RANK_TRAJECTORIES_H_
