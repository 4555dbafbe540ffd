// Writes the files of published versions: the model, and the run's average where the version is one of it.
//
//   Coordinator --kPublish--> publish() --bytes--> store thread --> FOLDER/run1_v000012.npy, run1_v000012_average.npy
//
// The bytes are copied at once, since the model goes on; the files are written on the store thread, behind the records
// before them, and are not synchronised to the disk (server/program/model_export.h).
#ifndef GRADSTREAM_SERVER_PROGRAM_PUBLISHER_H_
#define GRADSTREAM_SERVER_PROGRAM_PUBLISHER_H_

#include <cstdint>
#include <string>
#include <utility>

#include "runtime/training/stream.h"
#include "server/rules/model_average.h"
#include "server/store/store_thread.h"

namespace gradstream {

class Publisher {
 public:
  // folder: empty: no files, and only the log tells of versions. run: its number, in the names of the files.
  Publisher(std::string folder, uint32_t run) : folder_(std::move(folder)), run_(run) {}

  // A version is durable, and digest, model and average are as of it; nothing happens where the model is of another
  // version. Each file is logged once it is there, by event=version with its digest, or event=export_failed with the
  // cause.
  void publish(uint32_t version, uint64_t digest, const Replica& model, const ModelAverage& average,
               StoreThread& store) const;

 private:
  const std::string folder_;
  const uint32_t run_;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_PROGRAM_PUBLISHER_H_
