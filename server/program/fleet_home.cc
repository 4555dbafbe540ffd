#include "server/program/fleet_home.h"

namespace gradstream {

int DatabaseFleet::open(FleetUse use) {
  if (const int code = load(options_, &config_); code != kExitOk) {
    return code;
  }
  if (!config_.engine.address.empty()) {
    return beside_engine_();
  }
  database_ = std::make_unique<SqliteDatabase>();
  return open_database(config_, use == FleetUse::kMake, database_.get());
}

void DatabaseFleet::add_place(OutputLine* line) const { line->add("database", absolute_path(config_.server.database)); }

}  // namespace gradstream
