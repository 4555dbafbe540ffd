// What X14 says of its curves: notes, claims of the report, and the criteria that it must meet.
#ifndef GRADSTREAM_EXPERIMENTS_PAPERS_ASYNCHRONOUS_JUDGEMENT_H_
#define GRADSTREAM_EXPERIMENTS_PAPERS_ASYNCHRONOUS_JUDGEMENT_H_

#include "experiments/harness/experiment.h"

namespace gradstream {

// Experiment::judge of X14: all cases have run, but those whose data are not there.
void judge_asynchronous(const Curves& curves, const Request& request, Judgement* judgement);

}  // namespace gradstream

#endif  // GRADSTREAM_EXPERIMENTS_PAPERS_ASYNCHRONOUS_JUDGEMENT_H_
