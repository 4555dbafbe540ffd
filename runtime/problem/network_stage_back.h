// Back through the layers of a stage that keeps all, for one sample: errors take the place of values.
#ifndef GRADSTREAM_RUNTIME_PROBLEM_NETWORK_STAGE_BACK_H_
#define GRADSTREAM_RUNTIME_PROBLEM_NETWORK_STAGE_BACK_H_

#include "runtime/problem/network_back.h"
#include "runtime/problem/network_stage.h"

namespace gradstream {

// Puts the error of the stage's output to where run_stage() left the output. error: as many values, which alias nothing
// of the memory: the derivative of the loss by them.
void begin_stage_back(const Stage& stage, const StageMemory& memory, const Real* error);

// gradient <- gradient + what the sample gives, network_size() numbers. in, x: as run_stage() had them. kUnfinished:
// the pieces' work is done; call again with the same arguments and memory. After it the stage's values are gone.
Status run_stage_back(const Stage& stage, const StageMemory& memory, SampleValues in, const Real* x, Real* gradient,
                      Pieces& pieces);

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_PROBLEM_NETWORK_STAGE_BACK_H_
