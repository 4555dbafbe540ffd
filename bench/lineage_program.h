// What both programs of a lineage share: gradstream-lineage reads a database, gradstream-engine-lineage an engine.
#ifndef GRADSTREAM_BENCH_LINEAGE_PROGRAM_H_
#define GRADSTREAM_BENCH_LINEAGE_PROGRAM_H_

#include <string>

#include "bench/lineage_check.h"
#include "server/base/objection.h"

namespace gradstream {

// Reads the run at `place`, as the program's option says it. An objection says why there is none to be checked.
using ReadLineageSource = Objection (*)(const std::string& place, LineageSource* out);

// `name PLACE FILE...`: a line for each fault, and a line `result: ...`. Exit status 1: there is a fault. 2: there is
// nothing to be checked, and standard error says why.
int run_lineage_program(const char* name, const char* place_help, ReadLineageSource read_source, int argc, char** argv);

}  // namespace gradstream

#endif  // GRADSTREAM_BENCH_LINEAGE_PROGRAM_H_
