// Points that have parts: those of manifold product, listed in `parts`, and those of manifold fixed_rank, made of
// `matrix` and `rank`. The text of a run's file becomes a table of parts and the shape of the whole point.
#ifndef GRADSTREAM_SERVER_RUN_PARTS_H_
#define GRADSTREAM_SERVER_RUN_PARTS_H_

#include <array>
#include <cstdint>
#include <string>

#include "server/base/objection.h"
#include "server/run/run_parameters.h"

namespace gradstream {

// The parts of a product, and the factors of those that are matrices of fixed rank, to which their shapes point.
struct PartList {
  PartList() = default;
  PartList(const PartList&) = delete;
  PartList& operator=(const PartList&) = delete;
  Parts parts;
  std::array<Parts, kPartCountMax> factors;
};

// Makes part_list and shape.parts of `parts`, or of `matrix` and `rank`, and rows and cols where they are not set or
// were those of others. If the text describes no valid point, part_list is null and shape has no parts;
// check_parameters() then says what is wrong.
void set_parts(RunParameters* parameters);

// The parts of a product from a text such as "stiefel 16x2, euclidean 10x1 exponential parallel, fixed_rank 64x16 4".
// An objection names the key and the remedy; then *out holds the parts before the fault. *out must be empty.
Objection read_parts(const std::string& text, PartList* out);

// A part as that text names it, without its variant: "stiefel 16x2", "fixed_rank 64x16 4".
std::string text_of(const Part& part);

// The blocks of a point of fixed rank from `matrix` and `rank`. An objection names the keys and the remedy.
Objection read_matrix(const RunParameters& parameters, Parts* out);

// Numbers of all parts together.
uint64_t size_of(const Parts& parts);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RUN_PARTS_H_
