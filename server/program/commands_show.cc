// `gradstream device show`: one device in full, as the database and the running server know it.
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "server/base/refusal_catalogue.h"
#include "server/program/commands.h"
#include "server/program/fleet_home.h"
#include "server/program/past_runs.h"
#include "server/program/watch_client.h"

namespace gradstream {
namespace {

bool is_time(std::string_view key) { return key.ends_with("_seen_ms") || key.ends_with("_issued_ms"); }

void add_value(const std::string& key, const nlohmann::json& value, OutputLine* line) {
  if (value.is_boolean()) {
    line->add_flag(key, value.get<bool>());
  } else if (value.is_number_unsigned()) {
    line->add(key, value.get<uint64_t>());
  } else if (value.is_number()) {
    line->add_real(key, value.get<double>());
  } else if (value.is_string()) {
    line->add(key, value.get<std::string>());
  }
  if (is_time(key) && value.is_number_unsigned() && value.get<uint64_t>() > 0) {
    line->add_quoted(key.substr(0, key.size() - 3), time_text(value.get<uint64_t>()));
  }
}

// The device's row of /status/devices. None: no server tells, and *why is a sentence.
std::optional<nlohmann::json> ask_device(const ServerConfig& server, const std::string& name, std::string* why) {
  if (server.http_listen.empty()) {
    *why = "server.http_listen is not set, by which a running server is asked; set it and start the server again";
    return std::nullopt;
  }
  *why = "no server answers at server.http_listen " + server.http_listen + "; see gradstream status";
  const std::optional<std::string> body = ask_server(server, "/status/devices");
  nlohmann::json answer = body ? nlohmann::json::parse(*body, nullptr, false) : nlohmann::json();
  if (!answer.is_object() || !answer.contains("devices") || !answer["devices"].is_array()) {
    return std::nullopt;
  }
  for (nlohmann::json& row : answer["devices"]) {
    if (row.is_object() && row.value("device", "") == name) {
      return std::move(row);
    }
  }
  *why = "the server does not have it in its table, which is a moment old; ask again";
  return std::nullopt;
}

// What the server last said of its work, and what to do.
void print_reason(const CommonOptions& options, const std::string& reason) {
  const RefusalRow* const row = find_refusal(RefusalKind::kWork, reason);
  if (row != nullptr) {
    OutputLine()
        .add("last_reason", reason)
        .add_quoted("meaning", row->meaning)
        .add_quoted("remedy", row->remedy)
        .print(options);
  }
}

}  // namespace

int device_show(FleetHome& fleet, const std::string& name) {
  if (const int code = fleet.open(FleetUse::kLook); code != kExitOk) {
    return code;
  }
  const CommonOptions& options = fleet.options();
  SqliteDatabase& database = fleet.database();
  const Expected<std::optional<EnrolledDevice>> device = database.find_device(name);
  const Expected<uint64_t> latest_ms = database.latest_time();
  if (!device.is_ok() || !latest_ms.is_ok()) {
    return fail_database(database);
  }
  if (!*device) {
    return fail(kExitNotFound, "no device " + name + "; `gradstream device list` shows all");
  }
  std::string why;
  const std::optional<nlohmann::json> live = ask_device(fleet.config().server, name, &why);
  OutputLine identity;
  add_identity(**device, std::max(*latest_ms, fleet.now_ms()), &identity);
  identity.add_flag("told_by_server", live.has_value());
  if (!live) {
    identity.add_quoted("why", why).print(options);
    return kExitOk;
  }
  identity.print(options);
  OutputLine work;
  for (const auto& [key, value] : live->items()) {
    if (key != "index") {
      add_value(key, value, &work);
    }
  }
  work.print(options);
  print_reason(options, live->value("last_reason", ""));
  return kExitOk;
}

}  // namespace gradstream
