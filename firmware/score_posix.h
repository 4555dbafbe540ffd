// gradstream-client --score: samples of a table against the model that a device keeps in its state, without a server.
#ifndef GRADSTREAM_FIRMWARE_SCORE_POSIX_H_
#define GRADSTREAM_FIRMWARE_SCORE_POSIX_H_

#include <string>
#include <vector>

#include "firmware/client_main.h"
#include "include/gradstream/device.h"

namespace gradstream {

struct ScoreRun {
  std::string table_name;
  std::string state_name;
  const char* problem = "kpca";
  gs_sample_source table = {};
  bool has_threshold = false;
  gs_sample_source own = {};  // with a threshold: the device's own samples
  std::string own_name;
  std::vector<std::string> table_columns;  // their names; empty: the file has none
  std::vector<std::string> own_columns;
  float quantile = 0;
};

// Prints `row,score` or, with a threshold, `row,score,alarm` for every sample, rows from 1; alarm is 1 where the score
// is above the threshold, which event=threshold tells. Nothing is printed unless every sample has a score. The options
// are those of client_main(); once a process. The exit status: kExitOk; kExitNoTask: the state has no model;
// kExitData: the model is of another problem or shape, or a sample has no score; kExitUsage: the problem has none;
// kExitTemporary: standard output takes nothing now; those of a start that fails. Files whose columns have other names
// are kExitData too.
int score_table(const ClientMainOptions& options, const ScoreRun& run);

}  // namespace gradstream

#endif  // GRADSTREAM_FIRMWARE_SCORE_POSIX_H_
