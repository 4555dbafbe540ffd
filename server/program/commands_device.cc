// The verbs of the program `gradstream` around identities, and copies of the database that holds them.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <set>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/wire/claim.h"
#include "server/base/durable_file.h"
#include "server/base/private_file.h"
#include "server/base/secret.h"
#include "server/link/credentials.h"
#include "server/program/commands.h"
#include "server/store/database_copy.h"
#include "server/store/database_lock.h"

namespace gradstream {

namespace {

// What TLS carries is 63 characters: so that "~" and the number of a rotation fit behind any name.
constexpr size_t kDeviceNameSizeMax = 56;
constexpr size_t kIdentitySizeMax = 63;
// Of an import. Reason: a name and a key are below 128 bytes, and a million devices are more than one server has.
constexpr uintmax_t kImportSizeMax = 128U << 20;
constexpr size_t kImportLineSize = 4096;  // bytes; no line with a good name and key grows beyond it

bool is_device_name(const std::string& name) {
  const auto is_plain = [](char c) { return c > ' ' && c < '~' && c != ','; };
  return !name.empty() && name.size() <= kDeviceNameSizeMax && name.front() != '#' && name != "name" &&
         std::all_of(name.begin(), name.end(), is_plain);
}

bool parse_key(std::string_view text, DeviceKey* out) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  if (text.size() != 2 * out->size()) {
    return false;
  }
  for (size_t i = 0; i < text.size(); ++i) {
    const size_t digit = kDigits.find(static_cast<char>(text[i] | 0x20));
    if (digit == std::string_view::npos || text[i] < '0') {
      return false;
    }
    (*out)[i / 2] = static_cast<uint8_t>(i % 2 == 0 ? digit << 4 : (*out)[i / 2] | digit);
  }
  return true;
}

bool draw_key(DeviceKey* out) { return getrandom(out->data(), out->size(), 0) == static_cast<ssize_t>(out->size()); }

int fail_random() { return fail(kExitInternal, std::string("no random bytes: ") + std::strerror(errno)); }

// A new file that only its owner can read; empty or a sentence.
std::string write_secret_file(const std::string& path, const std::string& text) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (file < 0 && errno == EEXIST) {
    return "identity file " + path + " exists already; remove it or give another --out";
  }
  if (file < 0) {
    return "identity file " + path + " cannot be created: " + std::strerror(errno) + "; check its folder";
  }
  const bool written = ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()) && fsync(file) == 0;
  const int cause = errno;
  ::close(file);
  const int unnamed = written ? sync_folder_of(path) : cause;
  if (unnamed != 0) {
    ::unlink(path.c_str());
    return "identity file " + path + " cannot be written: " + std::strerror(unnamed) + "; free space on that disk";
  }
  return {};
}

std::string write_identity(const std::string& path, const std::string& identity, const DeviceKey& key) {
  SecretText text;
  text->reserve(kIdentityTextSizeMax);
  *text = "# gradstream device: keep this file secret, it is the device's key\nidentity = ";
  *text += identity;
  *text += "\nkey = ";
  for (const uint8_t byte : key) {
    constexpr char kDigits[] = "0123456789abcdef";
    *text += {kDigits[byte >> 4], kDigits[byte & 15]};
  }
  *text += "\n";
  return write_secret_file(path, *text);
}

int open_fleet(const CommonOptions& options, bool may_create, Config* config, SqliteDatabase* database) {
  const int code = load(options, config);
  return code == kExitOk ? open_database(*config, may_create, database) : code;
}

constexpr const char* kNameRule =
    "1 to 56 printable characters without spaces, commas and ~, not beginning with #, and not the word name";

}  // namespace

int device_add(const CommonOptions& options, const std::string& name, const std::string& out, bool is_pending) {
  if (!is_device_name(name)) {
    return fail(kExitUsage, "device name '" + name + "': expected " + kNameRule);
  }
  Config config;
  SqliteDatabase database;
  if (const int code = open_fleet(options, true, &config, &database); code != kExitOk) {
    return code;
  }
  DeviceKey key = {};
  if (!draw_key(&key)) {
    return fail_random();
  }
  const std::string problem = write_identity(out, name, key);
  if (!problem.empty()) {
    return fail(kExitFile, problem);
  }
  std::optional<uint32_t> index;
  const DeviceState state = is_pending ? DeviceState::kPending : DeviceState::kActive;
  const StoreStatus added = database.add_device(name, key, wall_clock_ms(), &index, state);
  if (added != StoreStatus::kOk || !index) {
    ::unlink(out.c_str());
    return added != StoreStatus::kOk
               ? fail_database(database)
               : fail(kExitNotFound, "device " + name + " is enrolled already; names are never used twice");
  }
  OutputLine()
      .add("device", name)
      .add("index", uint64_t{*index})
      .add("identity_file", out)
      .add("database", absolute_path(config.server.database))
      .add("state", device_state_text(state))
      .print(options);
  return kExitOk;
}

// ---- Many at once --------------------------------------------------------------------------------------------------

namespace {

// Spreadsheets write it before UTF-8.
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// Line by line; empty, or an error with its line. Rows without a key get an all-zero one, for *drawn to say so.
std::string parse_import(const std::string& file, std::vector<EnrolledDevice>* out, std::set<std::string>* drawn) {
  std::ifstream in(file);
  SecretText secret_line;
  std::string& line = *secret_line;
  line.reserve(kImportLineSize);
  std::set<std::string> names;
  for (uint32_t number = 1; std::getline(in, line); ++number) {
    if (line.ends_with('\r')) {
      line.pop_back();
    }
    if (number == 1 && line.starts_with(kByteOrderMark)) {
      line.erase(0, kByteOrderMark.size());
    }
    if (line.empty() || line.front() == '#' || (number == 1 && (line == "name" || line == "name,key"))) {
      continue;
    }
    const size_t comma = line.find(',');
    EnrolledDevice row;
    row.name = line.substr(0, comma);
    const std::string where = file + ":" + std::to_string(number) + ": ";
    if (!is_device_name(row.name)) {
      return where + "name: expected " + kNameRule;
    }
    if (!names.insert(row.name).second) {
      return where + row.name + " stands here twice";
    }
    if (comma == std::string::npos) {
      drawn->insert(row.name);
    } else if (!parse_key(std::string_view(line).substr(comma + 1), &row.key)) {
      return where + "key: expected 64 hexadecimal digits";  // and not what stands there: it may be a key nearly right
    }
    out->push_back(std::move(row));
  }
  return out->empty() ? file + " names no device; expected lines NAME or NAME,KEY" : "";
}

std::string check_import_file(const std::string& file) {
  struct stat info = {};
  if (stat(file.c_str(), &info) != 0) {
    return file + " cannot be read: " + std::strerror(errno) + "; name a CSV file with lines NAME or NAME,KEY";
  }
  if (!S_ISREG(info.st_mode) || static_cast<uintmax_t>(info.st_size) > kImportSizeMax) {
    return file + " is no file of at most 128 MiB";
  }
  return {};
}

}  // namespace

int device_import(const CommonOptions& options, const std::string& file, const std::string& out_folder,
                  bool is_pending) {
  std::string problem = check_import_file(file);
  if (!problem.empty()) {
    return fail(kExitFile, problem);
  }
  std::vector<EnrolledDevice> imported;
  std::set<std::string> drawn;
  problem = parse_import(file, &imported, &drawn);
  if (!problem.empty()) {
    return fail(kExitFile, problem);
  }
  if (drawn.size() < imported.size() && is_read_by_others(file)) {
    return fail(kExitFile, file + " holds keys and can be read by others; chmod 600 " + file);
  }
  if (!drawn.empty() && out_folder.empty()) {
    return fail(kExitUsage, file + " has names without a key: name a folder for their files with --out-folder");
  }
  Config config;
  SqliteDatabase database;
  if (const int code = open_fleet(options, true, &config, &database); code != kExitOk) {
    return code;
  }
  const bool is_new_folder = !drawn.empty() && ::mkdir(out_folder.c_str(), S_IRWXU) == 0;
  if (!drawn.empty() && !is_new_folder && errno != EEXIST) {
    return fail(kExitFile,
                "--out-folder " + out_folder + " cannot be made: " + std::strerror(errno) + "; nothing was enrolled");
  }
  std::vector<std::string> written;
  std::string taken;
  for (EnrolledDevice& row : imported) {
    row.state = is_pending ? DeviceState::kPending : DeviceState::kActive;
    if (problem.empty() && drawn.contains(row.name)) {
      const std::string path = out_folder + "/" + row.name + ".identity";
      problem = row.name.find('/') != std::string::npos ? "a name with / has no file: " + row.name
                : draw_key(&row.key)                    ? write_identity(path, row.name, row.key)
                                                        : "no random bytes";
      if (problem.empty()) {
        written.push_back(path);
      }
    }
  }
  const StoreStatus added =
      problem.empty() ? database.add_devices(imported, wall_clock_ms(), &taken) : StoreStatus::kFailed;
  if (added != StoreStatus::kOk || !taken.empty()) {
    for (const std::string& path : written) {
      ::unlink(path.c_str());
    }
    if (is_new_folder) {
      ::rmdir(out_folder.c_str());
    }
    return !problem.empty() ? fail(kExitFile, problem + "; nothing was enrolled")
           : taken.empty()  ? fail_database(database)
                            : fail(kExitNotFound, "device " + taken + " is enrolled already; nothing was enrolled");
  }
  OutputLine()
      .add("devices", uint64_t{imported.size()})
      .add("identity_files", uint64_t{written.size()})
      .add("state", device_state_text(imported.front().state))
      .add("database", absolute_path(config.server.database))
      .print(options);
  return kExitOk;
}

// ---- One device ----------------------------------------------------------------------------------------------------

int device_rotate(const CommonOptions& options, const std::string& name, const std::string& out, uint32_t window_s) {
  Config config;
  SqliteDatabase database;
  if (const int code = open_fleet(options, false, &config, &database); code != kExitOk) {
    return code;
  }
  std::optional<EnrolledDevice> row;
  if (database.find_device(name, &row) != StoreStatus::kOk) {
    return fail_database(database);
  }
  if (!row || row->state == DeviceState::kRevoked) {
    return fail(kExitNotFound, (row ? "device " + name + " is revoked" : "no device " + name) +
                                   "; `gradstream device list` shows all");
  }
  const std::string identity = identity_of_generation(name, row->generation + 1);
  if (identity.size() > kIdentitySizeMax) {
    return fail(kExitNotFound, "the name " + name + " is too long for a rotation; enrol it under a shorter one");
  }
  DeviceKey key = {};
  if (!draw_key(&key)) {
    return fail_random();
  }
  uint64_t now_ms = wall_clock_ms();
  if (database.note_time(&now_ms) != StoreStatus::kOk) {
    return fail_database(database);
  }
  const std::string problem = write_identity(out, identity, key);
  if (!problem.empty()) {
    return fail(kExitFile, problem);
  }
  const uint64_t until_ms = now_ms + uint64_t{window_s} * 1000;
  std::optional<uint32_t> generation;
  const StoreStatus rotated = database.rotate_key(name, key, until_ms, &generation);
  if (rotated != StoreStatus::kOk || generation != row->generation + 1) {
    ::unlink(out.c_str());  // of two rotations at once the other's file is the one that counts, or the next one's
    return rotated != StoreStatus::kOk ? fail_database(database)
                                       : fail(kExitNotFound, "device " + name + " was rotated by somebody else; again");
  }
  OutputLine()
      .add("device", name)
      .add("identity", identity)
      .add("identity_file", out)
      .add("previous_until_ms", until_ms)
      .print(options);
  return kExitOk;
}

int device_list(const CommonOptions& options) {
  Config config;
  SqliteDatabase database;
  if (const int code = open_fleet(options, false, &config, &database); code != kExitOk) {
    return code;
  }
  std::vector<EnrolledDevice> devices;
  if (database.devices(&devices) != StoreStatus::kOk) {
    return fail_database(database);
  }
  uint64_t now_ms = 0;
  if (database.latest_time(&now_ms) != StoreStatus::kOk) {
    return fail_database(database);
  }
  now_ms = std::max(now_ms, wall_clock_ms());
  for (const EnrolledDevice& device : devices) {
    OutputLine line;
    line.add("device", device.name)
        .add("index", uint64_t{device.index})
        .add("state", device_state_text(device.state))
        .add("created_ms", device.created_ms)
        .add("generation", uint64_t{device.generation});
    if (device.previous_until_ms > now_ms) {
      line.add("previous_until_ms", device.previous_until_ms);
    }
    line.print(options);
  }
  return kExitOk;
}

int device_set_state(const CommonOptions& options, const std::string& name, DeviceState state) {
  Config config;
  SqliteDatabase database;
  if (const int code = open_fleet(options, false, &config, &database); code != kExitOk) {
    return code;
  }
  std::optional<DeviceState> before;
  if (database.set_device_state(name, state, &before) != StoreStatus::kOk) {
    return fail_database(database);
  }
  if (!before) {
    return fail(kExitNotFound, "no device " + name + "; `gradstream device list` shows all");
  }
  if (*before == DeviceState::kRevoked && state != DeviceState::kRevoked) {
    return fail(kExitNotFound, "device " + name + " is revoked, for good; enrol it under a new name");
  }
  OutputLine().add("device", name).add("state", device_state_text(state)).print(options);
  return kExitOk;
}

// ---- Claims --------------------------------------------------------------------------------------------------------

int claim_add(const CommonOptions& options, const ClaimOptions& claim) {
  if (!is_claimable_name(claim.name)) {
    return fail(kExitUsage, "claim name '" + claim.name + "': expected " + kNameRule);
  }
  Config config;
  SqliteDatabase database;
  if (const int code = open_fleet(options, true, &config, &database); code != kExitOk) {
    return code;
  }
  ClaimRow row;
  row.name = claim.name;
  row.count_max = claim.count_max;
  row.created_ms = wall_clock_ms();
  if (database.note_time(&row.created_ms) != StoreStatus::kOk) {
    return fail_database(database);
  }
  row.expires_ms = row.created_ms + uint64_t{claim.window_s} * 1000;
  row.device_state = claim.is_pending ? DeviceState::kPending : DeviceState::kActive;
  if (!draw_key(&row.key)) {
    return fail_random();
  }
  const std::string problem = write_identity(claim.out, kClaimMark + claim.name, row.key);
  if (!problem.empty()) {
    return fail(kExitFile, problem);
  }
  const StoreStatus added = database.add_claim(&row);
  if (added != StoreStatus::kOk || row.id == 0) {
    ::unlink(claim.out.c_str());
    return added != StoreStatus::kOk ? fail_database(database)
                                     : fail(kExitNotFound, "claim " + claim.name + " is there already; another name");
  }
  OutputLine()
      .add("claim", row.name)
      .add("identity_file", claim.out)
      .add("count_max", uint64_t{row.count_max})
      .add("expires_ms", row.expires_ms)
      .add("devices_are", device_state_text(row.device_state))
      .print(options);
  return kExitOk;
}

int claim_list(const CommonOptions& options) {
  Config config;
  SqliteDatabase database;
  if (const int code = open_fleet(options, false, &config, &database); code != kExitOk) {
    return code;
  }
  std::vector<ClaimRow> rows;
  if (database.claims(&rows) != StoreStatus::kOk) {
    return fail_database(database);
  }
  uint64_t now_ms = 0;
  if (database.latest_time(&now_ms) != StoreStatus::kOk) {
    return fail_database(database);
  }
  now_ms = std::max(now_ms, wall_clock_ms());
  for (const ClaimRow& row : rows) {
    const char* const state = row.is_ended || row.expires_ms <= now_ms ? "ended"
                              : row.count_used >= row.count_max        ? "used up"
                                                                       : "open";
    OutputLine()
        .add("claim", row.name)
        .add_quoted("state", state)
        .add("count_used", uint64_t{row.count_used})
        .add("count_max", uint64_t{row.count_max})
        .add("expires_ms", row.expires_ms)
        .add("devices_are", device_state_text(row.device_state))
        .print(options);
  }
  return kExitOk;
}

int claim_end(const CommonOptions& options, const std::string& name) {
  Config config;
  SqliteDatabase database;
  if (const int code = open_fleet(options, false, &config, &database); code != kExitOk) {
    return code;
  }
  bool found = false;
  if (database.end_claim(name, wall_clock_ms(), &found) != StoreStatus::kOk) {
    return fail_database(database);
  }
  if (!found) {
    return fail(kExitNotFound, "no claim " + name + "; `gradstream claim list` shows all");
  }
  OutputLine().add("claim", name).add("state", "ended").print(options);
  return kExitOk;
}

// ---- Copies of the database ----------------------------------------------------------------------------------------

namespace {

int copy(const std::string& from, const std::string& to) {
  std::string error;
  const StoreStatus status = copy_database(from, to, &error);
  if (status == StoreStatus::kOk) {
    return kExitOk;
  }
  return fail(status == StoreStatus::kCorrupt ? kExitDatabase : kExitFile, error);
}

}  // namespace

int backup(const CommonOptions& options, const std::string& out) {
  Config config;
  SqliteDatabase database;
  if (const int code = open_fleet(options, false, &config, &database); code != kExitOk) {
    return code;  // what is no database of ours is not copied
  }
  const std::string partial = out + ".partial";
  if (::access(out.c_str(), F_OK) == 0) {
    return fail(kExitFile, out + " exists already; remove it or give another name");
  }
  if (const int code = copy(config.server.database, partial); code != kExitOk) {
    return code;
  }
  if (const int cause = rename_durably(partial, out); cause != 0) {
    return fail(kExitFile, "cannot rename " + partial + ": " + std::strerror(cause) + "; check that disk");
  }
  struct stat info = {};
  stat(out.c_str(), &info);
  OutputLine()
      .add("database", absolute_path(config.server.database))
      .add("file", out)
      .add("bytes", static_cast<uint64_t>(info.st_size))
      .print(options);
  return kExitOk;
}

namespace {

// The database, with the files that belong to it, under another name.
std::string move_aside(const std::string& path, const std::string& to) {
  for (const char* const end : {"-wal", "-shm", ""}) {
    const int cause = rename_durably(path + end, to + end);
    if (cause != 0 && cause != ENOENT) {
      return "cannot move " + path + end + " aside: " + std::strerror(cause);
    }
  }
  return {};
}

// A whole database of ours, at `path`, copied from `from`; empty, or why not.
std::string check_copy(const std::string& path, const std::string& from) {
  SqliteDatabase database;
  SqliteOptions options;
  options.path = path;
  options.copy_of = from;
  options.may_create = false;
  options.check_integrity = true;
  return database.open(options) == StoreStatus::kOk ? std::string() : database.error();
}

}  // namespace

int restore(const CommonOptions& options, const std::string& from, bool replace) {
  Config config;
  if (const int code = load(options, &config); code != kExitOk) {
    return code;
  }
  const std::string& path = config.server.database;
  DatabaseLock lock;  // until the end: no server may start meanwhile
  const std::string served = lock.take(path);
  if (!served.empty()) {
    return fail(kExitDatabase, served);
  }
  const bool is_there = ::access(path.c_str(), F_OK) == 0;
  if (is_there && !replace) {
    return fail(kExitDatabase, "database " + path + " exists; --replace moves it aside, and restores " + from);
  }
  const std::string fresh = path + ".restored";
  ::unlink(fresh.c_str());  // of a restoration that did not end
  if (const int code = copy(from, fresh); code != kExitOk) {
    return code;
  }
  const std::string damaged = check_copy(fresh, from);
  if (!damaged.empty()) {
    ::unlink(fresh.c_str());
    return fail(kExitDatabase, damaged);
  }
  const std::string aside = path + ".before-" + std::to_string(wall_clock_ms());
  std::string problem = is_there ? move_aside(path, aside) : "";
  if (problem.empty()) {
    problem = move_aside(fresh, path);
  }
  if (!problem.empty()) {
    return fail(kExitFile, problem);
  }
  OutputLine line;
  line.add("database", absolute_path(path)).add("from", from);
  if (is_there) {
    line.add("before", aside);
  }
  line.print(options);
  return kExitOk;
}

}  // namespace gradstream
