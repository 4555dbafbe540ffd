// How long a random campaign is in this build.
#ifndef GRADSTREAM_TESTS_SUPPORT_CAMPAIGN_H_
#define GRADSTREAM_TESTS_SUPPORT_CAMPAIGN_H_

#include <cstdint>

namespace gradstream {

// Of a campaign's draws a build under a sanitizer makes the first of so many. The native build makes all of them: it
// finds the draw whose result is wrong. A sanitizer looks for lines that misuse memory or threads, and every draw runs
// the same lines. A test that demands that each kind of draw occurs demands it of the shorter campaign too.
#if defined(GS_SANITIZED)
inline constexpr uint32_t kCampaignParts = 4;
#else
inline constexpr uint32_t kCampaignParts = 1;
#endif

// Draws of a campaign of `count` in this build: 0 of 0, else at least 1.
constexpr uint32_t campaign_draws(uint32_t count) { return (count + kCampaignParts - 1) / kCampaignParts; }

}  // namespace gradstream

#endif  // GRADSTREAM_TESTS_SUPPORT_CAMPAIGN_H_
