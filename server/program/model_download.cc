#include "server/program/model_download.h"

#include <utility>
#include <vector>

#include "server/program/model_npz.h"
#include "server/run/run_core.h"

namespace gradstream {
namespace {

HttpResponse refuse(uint32_t status, const std::string& sentence) {
  HttpResponse response;
  response.status = status;
  response.body = sentence + "\n";
  return response;
}

}  // namespace

HttpResponse ModelDownload::answer() {
  std::shared_ptr<const WatchSnapshot> snapshot = board_.read();
  if (snapshot == nullptr || snapshot->parameters == nullptr) {
    return refuse(503, "the server is not up yet; ask again in a second");
  }
  if (!snapshot->has_version) {
    return refuse(404, "run " + std::to_string(snapshot->run) +
                           " has no model yet: its first version is not made; see attention in /status");
  }
  const uint64_t size = snapshot->parameters->model->shape.size() * sizeof(Real);
  if (size > kModelDownloadMax) {
    return refuse(413, "the model has " + std::to_string(size) + " bytes, and a download from this port at most " +
                           std::to_string(kModelDownloadMax) +
                           "; `gradstream model export --out model.npz` writes it on the server");
  }
  if (bytes_ == nullptr || run_ != snapshot->run || version_ < snapshot->version) {
    if (snapshot->place.is_storage_failed) {
      return refuse(503,
                    "the server cannot write its database, and gives no model until it can; see attention in "
                    "/status");
    }
    if (snapshot == given_up_) {
      return refuse(503, "no copy of the model came, and the server has published nothing since; ask again");
    }
    snapshot = board_.wait_for_model(snapshot->run, snapshot->version, kModelWaitMs);
    if (snapshot == nullptr) {
      given_up_ = board_.read();
      return refuse(503, "no copy of the model came within " + std::to_string(kModelWaitMs) +
                             " ms: the server is busy, or cannot write its database; ask again");
    }
    const WatchedModel& model = *snapshot->model;
    NpzModel npz;
    npz.shape = snapshot->parameters->model->shape;
    npz.model = model.values;
    npz.problem = snapshot->parameters->model->problem;
    npz.digest = model.digest;
    npz.run = snapshot->run;
    npz.version = model.version;
    if (const Objection damaged = read_units(model.units, &npz)) {
      return refuse(503, damaged.sentence);
    }
    const std::vector<uint8_t> bytes = npz_bytes(npz);
    bytes_ = std::make_shared<const std::string>(bytes.begin(), bytes.end());
    run_ = snapshot->run;
    version_ = model.version;
  }
  HttpResponse response;
  response.status = 200;
  response.type = "application/octet-stream";
  response.file_name = "run" + std::to_string(run_) + "_v" + std::to_string(version_) + ".npz";
  response.shared_body = bytes_;
  return response;
}

}  // namespace gradstream
