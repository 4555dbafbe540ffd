// Keys of what travels: kinds and encodings of uploads and records.
#ifndef GRADSTREAM_SERVER_RUN_WIRE_KEYS_H_
#define GRADSTREAM_SERVER_RUN_WIRE_KEYS_H_

#include "server/base/objection.h"
#include "server/run/key.h"
#include "server/run/limits.h"
#include "server/run/run_core.h"

namespace gradstream {

struct RunParameters;

struct WireKeys : WireCore {
  static constexpr const char* kTitle = "Wire";

  // visit(key, field) for every key, in the order of the canonical text.
  template <typename Keys, typename Visit>
  static void visit(Keys& keys, Visit& visit) {
    visit(Key{"upload_stream",
              "",
              {},
              "Devices upload scalars where these say everything (`auto`), or what this word says "
              "(`docs/algorithms.md`)."},
          keys.upload_stream);
    visit(Key{"upload_encoding", "", {}, "Updates travel in this encoding; `f64` belongs to experiments."},
          keys.upload_encoding);
    visit(Key{"record_encoding",
              "",
              {},
              "What the server sends of a version travels in this encoding; `f64` belongs to experiments."},
          keys.record_encoding);
    visit(Key{"error_feedback",
              "",
              {},
              "A device adds to its next upload what `int8` or `bf16` left out of its last accepted one."},
          keys.error_feedback);
    visit(Key{"log_size_max", "bytes", from(0, kLogSizeMax),
              "A device that missed versions gets at most this much of their records, else a snapshot; 0 is the size "
              "of the snapshot."},
          keys.log_size_max);
  }
};

// A check of check_parameters(), which has the order of all: an objection names the keys and the remedy.
Objection check_uploads(const RunParameters& run);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RUN_WIRE_KEYS_H_
