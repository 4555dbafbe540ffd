// Known answers of the norm clip, of an independent implementation in whole numbers of any size: norms, clipped values
// and scales for a radius, and radii of windows of norms.
#ifndef GRADSTREAM_TESTS_GOLDEN_CLIP_VECTORS_H_
#define GRADSTREAM_TESTS_GOLDEN_CLIP_VECTORS_H_

#include <cstdint>
#include <vector>

namespace gradstream::golden::clip {

struct Clipped {
  std::vector<int64_t> values;
  uint32_t steps_done;
  uint64_t radius;
  uint64_t norm;
  uint32_t scale;
  std::vector<int64_t> clipped;
};

struct Window {
  std::vector<uint64_t> norms;
  uint32_t factor256;
  uint64_t radius;
};

inline const Clipped kClipped[] = {
    {{-988416, 7877383, 1284195, -1217127}, 1, 1000, 8133922, 264015, {-121, 968, 157, -149}},
    {{5119770, 4425103, 1890008, 2304302, 7530998, 3668569, 2908778, 1983657, -6769423, 8160874, -1696660, 6487633},
     5,
     1048576,
     38382205,
     58667807,
     {139868, 120890, 51633, 62951, 205741, 100222, 79465, 54192, -184936, 222949, -46351, 177237}},
    {{-3000556, 2504503, 4160627, -4983865, -4121038, -5889485, 5117728, -7091486, 1218752, 2411318, 3697478, -3552546,
      -3434745, 13741, 2546340, 813403},
     3,
     134217728,
     26726940,
     2147483648,
     {-3000556, 2504503, 4160627, -4983865, -4121038, -5889485, 5117728, -7091486, 1218752, 2411318, 3697478, -3552546,
      -3434745, 13741, 2546340, 813403}},
};

inline const Window kWindows[] = {
    {{491438}, 384, 737157},
    {{980376, 667895, 614802, 211176, 119570, 21145, 1040910, 877559}, 384, 922203},
    {{373704, 264188, 643894, 485043, 1005723, 167474, 729194,  301494, 490686, 604506, 554607, 260905, 696606, 783677,
      399214, 651297, 107753, 190212, 899244,  453754, 1012153, 472925, 193862, 26190,  862112, 44326,  596234},
     384,
     727564},
};

}  // namespace gradstream::golden::clip

#endif  // GRADSTREAM_TESTS_GOLDEN_CLIP_VECTORS_H_
