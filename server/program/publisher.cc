#include "server/program/publisher.h"

#include <span>
#include <utility>
#include <vector>

#include "server/base/log.h"
#include "server/program/model_export.h"
#include "server/rules/record.h"

namespace gradstream {

namespace {

struct VersionFile {
  uint32_t version = 0;
  uint64_t digest = 0;
  std::string path;
  std::vector<uint8_t> npy;
  std::string average;  // what it is the average of; empty: the model
};

void write_version_file(const VersionFile& file) {
  const Objection problem = write_file_atomically(file.path, file.npy);
  if (!problem) {
    Fields line;
    line.add("version", uint64_t{file.version}).add_hex("digest", file.digest).add("file", file.path);
    log_event("version"_event, file.average.empty() ? line : line.add("average", file.average));
  } else {
    log_event("export_failed"_event, Fields().add("version", uint64_t{file.version}).add("cause", problem.sentence));
  }
}

void write_after(StoreThread& store, VersionFile file) {
  store.run_after([file = std::move(file)] { write_version_file(file); });
}

}  // namespace

void Publisher::publish(uint32_t version, uint64_t digest, const Replica& model, const ModelAverage& average,
                        StoreThread& store) const {
  if (!model.has_model() || model.version() != version) {
    return;
  }
  if (folder_.empty()) {
    log_event("version"_event, Fields().add("version", uint64_t{version}).add_hex("digest", digest));
    return;
  }
  const std::span<const Real> values(model.model(), model.shape().size());
  const std::string path = folder_ + "/" + version_file_name(run_, version);
  write_after(store, {version, digest, path, npy_bytes(model.shape(), values), ""});
  if (average.count() > 0 && average.last_version() == version) {
    const uint64_t of_average = digest_values(kDigestStart, values.size(), average.model().data());
    write_after(store, {version, of_average, average_file_name(path), npy_bytes(model.shape(), average.model()),
                        average.text()});
  }
}

}  // namespace gradstream
