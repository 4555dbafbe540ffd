// gradstream-engine-lineage: whether an engine on PostgreSQL holds what the devices of gradstream-load were told.
//
//   gradstream-engine-lineage ADDRESS FILE...
//
// All of it is read as of one moment. Nodes may go on meanwhile, but then updates come that no file has.
#include <string>
#include <vector>

#include "bench/lineage_program.h"
#include "server/postgresql/engine_stored.h"

namespace gradstream {
namespace {

constexpr uint32_t kAnswerMsMax = 60'000;  // of the server, on a machine with much else to do

Objection read_engine(const std::string& place, LineageSource* out) {
  EngineSession session(kAnswerMsMax);
  EngineReader reader(session, EngineDurability::kStorage);  // read back, whoever else has it
  EngineStored stored;
  bool is_there = false;
  Objection objection = session.open(place);
  objection = objection ? objection : reader.read_run(&stored, &is_there);
  if (!objection && !is_there) {
    return "the engine has no run; gradstream engine import brings one";
  }
  objection = objection ? objection : take_run_source(stored.plan.source, &out->parameters);
  for (std::vector<PublishedVersion> versions; !objection;) {
    objection = reader.read_versions(static_cast<uint32_t>(out->versions.size() + 1), &versions);
    for (const PublishedVersion& version : versions) {
      out->versions.push_back({version, {}});
    }
    if (versions.empty()) {
      break;
    }
  }
  if (objection) {
    return objection;
  }
  out->rows.resize(stored.devices.size());
  for (const auto& [device, row] : stored.rows) {
    if (device < out->rows.size()) {
      out->rows[device] = row;
    }
  }
  for (const std::vector<uint8_t>& bytes : stored.sums) {
    if (decode_partial(bytes, &out->sums.emplace_back()) != Status::kOk) {
      return "a sum of the open version does not read; take the release that made it";
    }
  }
  return {};
}

}  // namespace
}  // namespace gradstream

int main(int argc, char** argv) {
  return gradstream::run_lineage_program("gradstream-engine-lineage", "of the engine, as libpq takes it",
                                         gradstream::read_engine, argc, argv);
}
