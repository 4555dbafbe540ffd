// The newest version's model for a download from the HTTP port, in the form of `gradstream model export`.
//
//   http thread: answer() --wish--> WatchBoard --next publication--> copy of the model --npz--> the answer
//   server's thread: one copy for each version that somebody wants, and nothing else
//
// Encoding and sending are the HTTP thread's. The same bytes serve all who ask for the same version.
#ifndef GRADSTREAM_SERVER_PROGRAM_MODEL_DOWNLOAD_H_
#define GRADSTREAM_SERVER_PROGRAM_MODEL_DOWNLOAD_H_

#include <cstdint>
#include <memory>
#include <string>

#include "server/watch/http.h"
#include "server/watch/watch.h"

namespace gradstream {

inline constexpr const char* kModelPath = "/status/model.npz";
// Bytes of a model that is given here. Reason: the server's thread copies it in 20 ms, a tenth of a round.
inline constexpr uint64_t kModelDownloadMax = 64ULL << 20;
// How long a request waits for the copy, ms. Reason: it comes with the next publication.
inline constexpr uint32_t kModelWaitMs = 3 * kWatchPeriodMs;

class ModelDownload {
 public:
  explicit ModelDownload(WatchBoard& board) : board_(board) {}

  // On the HTTP thread, which waits up to kModelWaitMs, and others behind it. Where a wait would be in vain there is
  // none. 404: the run has no model yet, 413: it is beyond kModelDownloadMax, 503: the copy did not come; each with a
  // sentence.
  HttpResponse answer();

 private:
  WatchBoard& board_;
  uint32_t run_ = 0;
  uint32_t version_ = 0;
  std::shared_ptr<const std::string> bytes_;       // of that version; null: of none
  std::shared_ptr<const WatchSnapshot> given_up_;  // the newest one when a wait ended without a copy
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_PROGRAM_MODEL_DOWNLOAD_H_
