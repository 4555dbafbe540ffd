#include "server/program/commands.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "host/file_cause.h"
#include "host/standard_files.h"
#include "server/coordinator/fleet.h"
#include "server/coordinator/run_progress.h"
#include "server/coordinator/stall.h"
#include "server/program/model_export.h"
#include "server/program/model_npz.h"
#include "server/program/run_export.h"
#include "server/rules/record.h"
#include "server/run/run_core.h"
#include "server/run/trigger.h"
#include "server/store/database_lock.h"
#include "server/store/journal_table.h"
#include "server/watch/sentence_words.h"
#include "server/watch/watch.h"
#include "server/watch/words.h"

namespace gradstream {

namespace {

// As a log line has it, and in quotes also where the value needs none.
std::string quoted_pair(const std::string& key, const std::string& value) {
  const std::string text = Fields().add(key, value).text();
  return text == key + "=" + value ? key + "=\"" + value + "\"" : text;
}

}  // namespace

OutputLine& OutputLine::add(const std::string& key, const std::string& value) {
  pairs_.push_back({key, value});
  return *this;
}

OutputLine& OutputLine::add(const std::string& key, uint64_t value) {
  pairs_.push_back({key, std::to_string(value), Kind::kNumber});
  return *this;
}

OutputLine& OutputLine::add_hex(const std::string& key, uint64_t value) { return add(key, hex(value)); }

OutputLine& OutputLine::add_real(const std::string& key, double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.7g", value);
  pairs_.push_back({key, text, Kind::kReal});
  return *this;
}

OutputLine& OutputLine::add_reals(const std::string& key, const std::vector<double>& values) {
  Pair pair = {key, "", Kind::kReals};
  for (const double value : values) {
    char text[32];
    std::snprintf(text, sizeof text, "%.7g", value);
    pair.value += (pair.value.empty() ? "" : ",") + std::string(text);
    pair.all.emplace_back(text);
  }
  pairs_.push_back(pair);
  return *this;
}

OutputLine& OutputLine::add_quoted(const std::string& key, const std::string& value) {
  pairs_.push_back({key, value, Kind::kQuoted});
  return *this;
}

OutputLine& OutputLine::add_flag(const std::string& key, bool value) {
  pairs_.push_back({key, value ? "yes" : "no", Kind::kFlag});
  return *this;
}

OutputLine& OutputLine::add_list(const std::string& key, const std::string& text, std::vector<std::string> all) {
  pairs_.push_back({key, text, Kind::kList, std::move(all)});
  return *this;
}

void OutputLine::print(const CommonOptions& options) const {
  if (options.format == "json") {
    nlohmann::ordered_json json;
    for (const Pair& pair : pairs_) {
      switch (pair.kind) {
        case Kind::kNumber:
          json[pair.key] = std::stoull(pair.value);
          break;
        case Kind::kReal:
          json[pair.key] = std::strtod(pair.value.c_str(), nullptr);
          break;
        case Kind::kReals:
          json[pair.key] = nlohmann::ordered_json::array();
          for (const std::string& value : pair.all) {
            json[pair.key].push_back(std::strtod(value.c_str(), nullptr));
          }
          break;
        case Kind::kFlag:
          json[pair.key] = pair.value == "yes";
          break;
        case Kind::kList:
          json[pair.key] = pair.all;
          break;
        default:
          json[pair.key] = pair.value;
      }
    }
    print_output(json.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace) + "\n");
    return;
  }
  std::string text;
  for (const Pair& pair : pairs_) {
    text += text.empty() ? "" : " ";
    text += pair.kind == Kind::kQuoted ? quoted_pair(pair.key, pair.value) : Fields().add(pair.key, pair.value).text();
  }
  print_output(text + "\n");
}

int load(const CommonOptions& options, Config* out, ConfigOrigins* origins) {
  if (options.config.empty()) {
    return fail(kExitUsage, "no configuration: name one with --config FILE or GRADSTREAM_CONFIG");
  }
  Objection errors = load_config({options.config, process_environment(), options.overrides}, out, origins);
  for (const std::string& warning : out->warnings) {
    log_event("variable_ignored"_event, Fields().add("cause", warning));
  }
  for (const std::string& ignored : out->ignored_files) {
    log_event("file_ignored"_event, Fields().add("cause", ignored));
  }
  if (!errors) {
    return kExitOk;
  }
  errors.sentence.pop_back();  // the last newline
  return fail(is_temporary(find_path_fault(options.config.c_str(), false)) ? kExitTemporary : kExitConfig,
              errors.sentence);
}

int load_beside_no_engine(const CommonOptions& options, Config* out) {
  if (const int code = load(options, out); code != kExitOk) {
    return code;
  }
  return out->engine.address.empty()
             ? int{kExitOk}
             : fail(kExitConfig,
                    "engine.address names an engine, and this verb works with server.database, which its nodes neither "
                    "read nor write; gradstream engine status shows the engine's runs, engine export brings one into a "
                    "database, and --set engine.address= lets this verb work with server.database all the same");
}

std::string configuration_words(const CommonOptions& options, const std::string& in_folder) {
  std::string words;
  if (options.config != kInstalledConfig) {
    words = "--config " + shell_word((std::filesystem::path(in_folder) / options.config).string());
  }
  for (const std::string& value : options.overrides) {
    words += (words.empty() ? "--set " : " --set ") + shell_word(value);
  }
  return words;
}

int open_database(const Config& config, bool may_create, SqliteDatabase* out) {
  SqliteOptions options;
  options.path = config.server.database;
  options.may_create = may_create;
  options.keeps_unused = false;
  return out->open(options) == StoreStatus::kOk ? int{kExitOk} : fail_database(*out);
}

int open_both(const CommonOptions& options, bool may_create, Opened* out) {
  out->options = options;
  const int code = load_beside_no_engine(options, &out->config);
  return code == kExitOk ? open_database(out->config, may_create, &out->database) : code;
}

int open_run(const CommonOptions& options, uint32_t id, Opened* out, RunRow* run) {
  const int code = open_both(options, false, out);
  if (code != kExitOk) {
    return code;
  }
  const Expected<std::optional<RunRow>> found = id == 0 ? out->database.current_run() : out->database.find_run(id);
  if (!found.is_ok()) {
    return fail_database(out->database);
  }
  if (!*found && id != 0) {
    return fail(kExitNotFound, "no run " + std::to_string(id) + "; `gradstream run list` shows all");
  }
  if (!*found) {
    return fail(kExitNotFound, "database " + out->config.server.database +
                                   " holds no run; `gradstream serve` or `gradstream run start` begins one");
  }
  *run = **found;
  return kExitOk;
}

int open_journal(const CommonOptions& options, uint32_t id, Opened* out, RunRow* run) {
  const int code = open_run(options, id, out, run);
  if (code != kExitOk) {
    return code;
  }
  return out->database.hold_snapshot() == StoreStatus::kOk ? int{kExitOk} : fail_database(out->database);
}

int probe_server(const Config& config, DatabaseOwner* out) {
  const Objection problem = DatabaseLock::probe(config.server.database, out);
  return problem ? fail(kExitDatabase, problem.sentence) : int{kExitOk};
}

uint64_t wall_clock_ms() {
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(since_epoch).count());
}

}  // namespace gradstream
