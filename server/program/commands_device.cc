// The verbs of the program `gradstream` around identities, and copies of the database that holds them.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/durable_file.h"
#include "host/file_cause.h"
#include "runtime/link/key_agreement.h"
#include "runtime/wire/claim.h"
#include "server/base/private_file.h"
#include "server/base/secret.h"
#include "server/base/text_file.h"
#include "server/link/credentials.h"
#include "server/program/commands.h"
#include "server/program/device_table.h"
#include "server/program/past_runs.h"
#include "server/store/database_copy.h"
#include "server/store/database_lock.h"

namespace gradstream {

namespace {

constexpr size_t kIdentitySizeMax = 63;
// Of an import. Reason: a name and a key are below 128 bytes, and a million devices are more than one server has.
constexpr uintmax_t kImportSizeMax = 128U << 20;

void append_hex(std::span<const uint8_t> bytes, std::string* out) {
  for (const uint8_t byte : bytes) {
    constexpr char kDigits[] = "0123456789abcdef";
    *out += {kDigits[byte >> 4], kDigits[byte & 15]};
  }
}

bool draw_key(DeviceKey* out) { return getrandom(out->data(), out->size(), 0) == static_cast<ssize_t>(out->size()); }

int fail_random() { return fail(kExitInternal, std::string("no random bytes: ") + std::strerror(errno)); }

// A new file that only its owner can read: kExitOk, or the code of *problem.
CommandExit write_secret_file(const std::string& path, const std::string& text, std::string* problem) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
  int cause = errno;
  if (file < 0 && cause == EEXIST) {
    *problem = "identity file " + path + " exists already; remove it or give another --out";
    return kExitFile;
  }
  const char* const what = file < 0 ? " cannot be created: " : " cannot be written: ";
  if (file >= 0) {
    cause = write_durably(file, text.data(), text.size());
    ::close(file);
    cause = cause == 0 ? sync_folder_of(path.c_str()) : cause;
    if (cause == 0) {
      return kExitOk;
    }
    ::unlink(path.c_str());
  }
  *problem =
      "identity file " + path + what + cause_text(cause) + "; " + remedy_text(cause, "check its folder and that disk");
  return is_temporary(cause) ? kExitTemporary : kExitFile;
}

// The same for a device or a claim. server: the public key of a claim's server; empty: of a device.
CommandExit write_identity(const std::string& path, const std::string& identity, const DeviceKey& key,
                           std::span<const uint8_t> server, std::string* problem) {
  SecretText text;
  text->reserve(kIdentityTextSizeMax);
  *text = "# gradstream device: keep this file secret, it is the device's key\nidentity = ";
  *text += identity;
  *text += "\nkey = ";
  append_hex(key, &*text);
  *text += "\n";
  if (!server.empty()) {
    *text += "server = ";
    append_hex(server, &*text);
    *text += "\n";
  }
  return write_secret_file(path, *text, problem);
}

enum class FleetUse : uint8_t { kLook, kChange, kMake };  // kMake: a change that makes a database where there is none

int open_fleet(const CommonOptions& options, FleetUse use, Config* config, SqliteDatabase* database) {
  if (const int code = load(options, config); code != kExitOk) {
    return code;
  }
  if (use != FleetUse::kLook && !config->engine.address.empty()) {
    return fail(kExitConfig,
                "engine.address names an engine, whose fleet does not change yet, and its nodes read nothing of "
                "server.database; leave engine.address out to change that database");
  }
  return open_database(*config, use == FleetUse::kMake, database);
}

}  // namespace

int device_add(const CommonOptions& options, const std::string& name, const std::string& out, bool is_pending) {
  if (!is_device_name(name)) {
    return fail(kExitUsage, "device name '" + name + "': expected " + kDeviceNameRule);
  }
  if (const Objection fault = find_out_fault("--out", out)) {
    return fail(kExitUsage, fault.sentence);
  }
  Config config;
  SqliteDatabase database;
  if (const int code = open_fleet(options, FleetUse::kMake, &config, &database); code != kExitOk) {
    return code;
  }
  DeviceKey key = {};
  if (!draw_key(&key)) {
    return fail_random();
  }
  std::string problem;
  if (const CommandExit code = write_identity(out, name, key, {}, &problem); code != kExitOk) {
    return fail(code, problem);
  }
  const DeviceState state = is_pending ? DeviceState::kPending : DeviceState::kActive;
  const Expected<std::optional<uint32_t>> index = database.add_device(name, key, wall_clock_ms(), state);
  if (!index.is_ok() || !*index) {
    ::unlink(out.c_str());
    return !index.is_ok() ? fail_database(database)
                          : fail(kExitNotFound, "device " + name + " is enrolled already; names are never used twice");
  }
  OutputLine()
      .add("device", name)
      .add("index", uint64_t{**index})
      .add("identity_file", out)
      .add("database", absolute_path(config.server.database))
      .add("state", device_state_text(state))
      .print(options);
  return kExitOk;
}

// ---- Many at once --------------------------------------------------------------------------------------------------

namespace {

Objection read_import(const std::string& file, std::vector<EnrolledDevice>* out, std::set<std::string>* drawn) {
  SecretText text;
  const Objection problem = read_text_file(file, kImportSizeMax, &*text);
  return problem ? file + " " + problem.sentence + "; name a CSV file with lines NAME or NAME,KEY"
                 : parse_device_table(*text, file, out, drawn);
}

// Devices of the database with their keys.
Expected<std::vector<EnrolledDevice>> read_devices(SqliteDatabase& database) {
  Expected<std::vector<EnrolledDevice>> devices = database.devices();
  GS_TRY_STORE(devices);
  for (EnrolledDevice& device : *devices) {
    const Expected<std::optional<EnrolledDevice>> row = database.find_device(device.name);
    GS_TRY_STORE(row);
    device = row->value_or(device);
  }
  return devices;
}

// Claims of the database with their keys.
Expected<std::vector<ClaimRow>> read_claims(SqliteDatabase& database) {
  Expected<std::vector<ClaimRow>> claims = database.claims();
  GS_TRY_STORE(claims);
  for (ClaimRow& claim : *claims) {
    const Expected<std::optional<ClaimRow>> row = database.find_claim(claim.name);
    GS_TRY_STORE(row);
    claim = row->value_or(claim);
  }
  return claims;
}

// kExitOk where no key of the rows is another's in the database.
int check_keys(const std::vector<EnrolledDevice>& imported, SqliteDatabase& database) {
  const Expected<std::vector<EnrolledDevice>> devices = read_devices(database);
  if (!devices.is_ok()) {
    return fail_database(database);
  }
  const Expected<std::vector<ClaimRow>> claims = read_claims(database);
  if (!claims.is_ok()) {
    return fail_database(database);
  }
  const Objection problem = find_taken_key(imported, *devices, *claims);
  return problem ? fail(kExitNotFound, problem.sentence + "; nothing was enrolled") : int{kExitOk};
}

}  // namespace

int device_import(const CommonOptions& options, const std::string& file, const std::string& out_folder,
                  bool is_pending) {
  if (file.empty()) {
    return fail(kExitUsage, "device import '': expected the path of a CSV file with lines NAME or NAME,KEY");
  }
  std::vector<EnrolledDevice> imported;
  std::set<std::string> drawn;
  Objection problem = read_import(file, &imported, &drawn);
  if (problem) {
    return fail(kExitFile, problem.sentence);
  }
  if (drawn.size() < imported.size() && is_read_by_others(file)) {
    return fail(kExitFile, file + " holds keys and can be read by others; chmod 600 " + file);
  }
  if (!drawn.empty() && out_folder.empty()) {
    return fail(kExitUsage, file + " has names without a key: name a folder for their files with --out-folder");
  }
  Config config;
  SqliteDatabase database;
  int opened = open_fleet(options, FleetUse::kMake, &config, &database);
  if (opened == kExitOk && drawn.size() < imported.size()) {
    opened = check_keys(imported, database);
  }
  if (opened != kExitOk) {
    return opened;
  }
  const bool is_new_folder = !drawn.empty() && ::mkdir(out_folder.c_str(), S_IRWXU) == 0;
  if (!drawn.empty() && !is_new_folder && errno != EEXIST) {
    const int cause = errno;
    return fail(is_temporary(cause) ? kExitTemporary : kExitFile,
                "--out-folder " + out_folder + " cannot be made: " + cause_text(cause) + "; nothing was enrolled; " +
                    remedy_text(cause, "check the folder above it"));
  }
  std::vector<std::string> written;
  CommandExit code = kExitOk;
  for (EnrolledDevice& row : imported) {
    row.state = is_pending ? DeviceState::kPending : DeviceState::kActive;
    if (!problem && drawn.contains(row.name)) {
      const std::string path = out_folder + "/" + row.name + ".identity";
      problem = row.name.find('/') != std::string::npos ? "a name with / has no file: " + row.name
                : !draw_key(&row.key)                   ? "no random bytes"
                                                        : "";
      code = problem ? kExitFile : write_identity(path, row.name, row.key, {}, &problem.sentence);
      if (code == kExitOk) {
        written.push_back(path);
      }
    }
  }
  const Expected<std::string> taken = problem ? StoreStatus::kFailed : database.add_devices(imported, wall_clock_ms());
  if (!taken.is_ok() || !taken->empty()) {
    for (const std::string& path : written) {
      ::unlink(path.c_str());
    }
    if (is_new_folder) {
      ::rmdir(out_folder.c_str());
    }
    return problem          ? fail(code, problem.sentence + "; nothing was enrolled")
           : !taken.is_ok() ? fail_database(database)
                            : fail(kExitNotFound, "device " + *taken + " is enrolled already; nothing was enrolled");
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

namespace {

// A device whose key can be rotated. kExitOk and *out, or the exit status, which was printed.
int find_rotatable(SqliteDatabase& database, const std::string& name, EnrolledDevice* out) {
  const Expected<std::optional<EnrolledDevice>> found = database.find_device(name);
  if (!found.is_ok()) {
    return fail_database(database);
  }
  const std::optional<EnrolledDevice>& row = *found;
  if (!row || row->state == DeviceState::kRevoked) {
    return fail(kExitNotFound, (row ? "device " + name + " is revoked" : "no device " + name) +
                                   "; `gradstream device list` shows all");
  }
  if (identity_of_generation(name, row->generation + 1).size() > kIdentitySizeMax) {
    return fail(kExitNotFound, "the name " + name + " is too long for a rotation; enrol it under a shorter one");
  }
  *out = *row;
  return kExitOk;
}

}  // namespace

int device_rotate(const CommonOptions& options, const std::string& name, const std::string& out, uint32_t window_s) {
  if (const Objection fault = find_out_fault("--out", out)) {
    return fail(kExitUsage, fault.sentence);
  }
  Config config;
  SqliteDatabase database;
  if (const int code = open_fleet(options, FleetUse::kChange, &config, &database); code != kExitOk) {
    return code;
  }
  EnrolledDevice row;
  if (const int code = find_rotatable(database, name, &row); code != kExitOk) {
    return code;
  }
  const std::string identity = identity_of_generation(name, row.generation + 1);
  DeviceKey key = {};
  if (!draw_key(&key)) {
    return fail_random();
  }
  uint64_t now_ms = wall_clock_ms();
  if (database.note_time(&now_ms) != StoreStatus::kOk) {
    return fail_database(database);
  }
  std::string problem;
  if (const CommandExit code = write_identity(out, identity, key, {}, &problem); code != kExitOk) {
    return fail(code, problem);
  }
  const uint64_t until_ms = now_ms + uint64_t{window_s} * 1000;
  const Expected<std::optional<uint32_t>> generation = database.rotate_key(name, key, until_ms);
  if (!generation.is_ok() || *generation != row.generation + 1) {
    ::unlink(out.c_str());  // of two rotations at once the other's file is the one that counts, or the next one's
    return !generation.is_ok() ? fail_database(database)
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

int device_ask_for_key(const CommonOptions& options, const std::string& name, uint32_t window_s) {
  Config config;
  SqliteDatabase database;
  if (const int code = open_fleet(options, FleetUse::kChange, &config, &database); code != kExitOk) {
    return code;
  }
  EnrolledDevice device;
  if (const int code = find_rotatable(database, name, &device); code != kExitOk) {
    return code;
  }
  KeyChangeRow row;
  if (!draw_key(&row.server_secret)) {
    return fail_random();
  }
  row.window_s = window_s;
  row.since_ms = wall_clock_ms();
  if (database.note_time(&row.since_ms) != StoreStatus::kOk) {
    return fail_database(database);
  }
  const Expected<bool> is_asked = database.request_key_change(name, row);
  if (!is_asked.is_ok() || !*is_asked) {
    return !is_asked.is_ok() ? fail_database(database)
                             : fail(kExitNotFound, "device " + name + " was revoked by somebody else");
  }
  OutputLine()
      .add("device", name)
      .add("identity", identity_of_generation(name, device.generation + 1))
      .add("key_change", "waiting")
      .add("since_ms", row.since_ms)
      .add("until_ms", row.since_ms + kKeyChangeAgeMaxMs)
      .print(options);
  return kExitOk;
}

void add_key_change(const EnrolledDevice& device, uint64_t now_ms, OutputLine* line) {
  if (device.key_change_since_ms != 0 && now_ms < device.key_change_since_ms + kKeyChangeAgeMaxMs) {
    line->add("key_change", "waiting").add("since_ms", device.key_change_since_ms);
  }
}

void add_identity(const EnrolledDevice& device, uint64_t now_ms, OutputLine* line) {
  line->add("device", device.name)
      .add("index", uint64_t{device.index})
      .add("state", device_state_text(device.state))
      .add("created_ms", device.created_ms)
      .add_quoted("created", time_text(device.created_ms))
      .add("generation", uint64_t{device.generation});
  if (device.previous_until_ms > now_ms) {
    line->add("previous_until_ms", device.previous_until_ms)
        .add_quoted("previous_until", time_text(device.previous_until_ms));
  }
  add_key_change(device, now_ms, line);
}

int device_list(const CommonOptions& options) {
  Config config;
  SqliteDatabase database;
  if (const int code = open_fleet(options, FleetUse::kLook, &config, &database); code != kExitOk) {
    return code;
  }
  const Expected<std::vector<EnrolledDevice>> devices = database.devices();
  if (!devices.is_ok()) {
    return fail_database(database);
  }
  const Expected<uint64_t> latest_ms = database.latest_time();
  if (!latest_ms.is_ok()) {
    return fail_database(database);
  }
  const uint64_t now_ms = std::max(*latest_ms, wall_clock_ms());
  for (const EnrolledDevice& device : *devices) {
    OutputLine line;
    add_identity(device, now_ms, &line);
    line.print(options);
  }
  return kExitOk;
}

int device_set_state(const CommonOptions& options, const std::string& name, DeviceState state) {
  Config config;
  SqliteDatabase database;
  if (const int code = open_fleet(options, FleetUse::kChange, &config, &database); code != kExitOk) {
    return code;
  }
  const Expected<std::optional<DeviceState>> before = database.set_device_state(name, state);
  if (!before.is_ok()) {
    return fail_database(database);
  }
  if (!*before) {
    return fail(kExitNotFound, "no device " + name + "; `gradstream device list` shows all");
  }
  if (**before == DeviceState::kRevoked && state != DeviceState::kRevoked) {
    return fail(kExitNotFound, "device " + name + " is revoked, for good; enrol it under a new name");
  }
  OutputLine().add("device", name).add("state", device_state_text(state)).print(options);
  return kExitOk;
}

// ---- Claims --------------------------------------------------------------------------------------------------------

int claim_add(const CommonOptions& options, const ClaimOptions& claim) {
  if (!is_claimable_name(claim.name)) {
    return fail(kExitUsage, "claim name '" + claim.name + "': expected " + kDeviceNameRule + ", and no /");
  }
  if (const Objection fault = find_out_fault("--out", claim.out)) {
    return fail(kExitUsage, fault.sentence);
  }
  if (claim.window_s == 0) {
    return fail(kExitUsage, "--window-s 0: expected 1 to 4294967295 s; a claim that has ended lets nobody in");
  }
  Config config;
  SqliteDatabase database;
  if (const int code = open_fleet(options, FleetUse::kMake, &config, &database); code != kExitOk) {
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
  row.is_proven = true;
  std::array<uint8_t, kAgreedKeySize> server = {};
  if (!draw_key(&row.key) || !draw_key(&row.server_secret)) {
    return fail_random();
  }
  if (find_public_key(row.server_secret, server) != Status::kOk) {
    return fail(kExitTemporary, "no memory for the keys of a claim; try again");
  }
  std::string problem;
  if (const CommandExit code = write_identity(claim.out, kClaimMark + claim.name, row.key, server, &problem);
      code != kExitOk) {
    return fail(code, problem);
  }
  const Expected<std::optional<uint32_t>> id = database.add_claim(row);
  if (!id.is_ok() || !*id) {
    ::unlink(claim.out.c_str());
    return !id.is_ok() ? fail_database(database)
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
  if (const int code = open_fleet(options, FleetUse::kLook, &config, &database); code != kExitOk) {
    return code;
  }
  const Expected<std::vector<ClaimRow>> rows = database.claims();
  if (!rows.is_ok()) {
    return fail_database(database);
  }
  const Expected<uint64_t> latest_ms = database.latest_time();
  if (!latest_ms.is_ok()) {
    return fail_database(database);
  }
  const uint64_t now_ms = std::max(*latest_ms, wall_clock_ms());
  for (const ClaimRow& row : *rows) {
    const char* const state = row.is_ended || row.expires_ms <= now_ms ? "ended"
                              : row.count_used >= row.count_max        ? "used up"
                                                                       : "open";
    OutputLine line;
    line.add("claim", row.name)
        .add_quoted("state", state)
        .add("count_used", uint64_t{row.count_used})
        .add("count_max", uint64_t{row.count_max})
        .add("expires_ms", row.expires_ms)
        .add_quoted("expires", time_text(row.expires_ms))
        .add("devices_are", device_state_text(row.device_state))
        .add("server", row.is_proven ? "proven" : "unproven");
    if (!row.is_proven && std::string_view(state) == "open") {
      line.add_quoted("remedy",
                      "who holds its file can be the server for who claims by it, and read the new keys: "
                      "gradstream claim end, then claim add makes one whose server proves itself");
    }
    line.print(options);
  }
  return kExitOk;
}

int claim_end(const CommonOptions& options, const std::string& name) {
  Config config;
  SqliteDatabase database;
  if (const int code = open_fleet(options, FleetUse::kChange, &config, &database); code != kExitOk) {
    return code;
  }
  const Expected<bool> found = database.end_claim(name, wall_clock_ms());
  if (!found.is_ok()) {
    return fail_database(database);
  }
  if (!*found) {
    return fail(kExitNotFound, "no claim " + name + "; `gradstream claim list` shows all");
  }
  OutputLine().add("claim", name).add("state", "ended").print(options);
  return kExitOk;
}

// ---- Copies of the database ----------------------------------------------------------------------------------------

namespace {

int copy(const std::string& from, const std::string& to) {
  std::string error;
  bool is_temporary = false;
  const StoreStatus status = copy_database(from, to, &error, &is_temporary);
  if (status == StoreStatus::kOk) {
    return kExitOk;
  }
  return fail(status == StoreStatus::kCorrupt ? kExitDatabase : is_temporary ? kExitTemporary : kExitFile, error);
}

}  // namespace

int backup(const CommonOptions& options, const std::string& out) {
  if (const Objection fault = find_out_fault("backup", out)) {
    return fail(kExitUsage, fault.sentence);
  }
  Config config;
  SqliteDatabase database;
  if (const int code = open_fleet(options, FleetUse::kLook, &config, &database); code != kExitOk) {
    return code;  // what is no database of ours is not copied
  }
  const std::string partial = out + ".partial";
  if (::access(out.c_str(), F_OK) == 0) {
    return fail(kExitFile, out + " exists already; remove it or give another name");
  }
  if (const int code = copy(config.server.database, partial); code != kExitOk) {
    return code;
  }
  if (const int cause = rename_durably(partial.c_str(), out.c_str()); cause != 0) {
    return fail(is_temporary(cause) ? kExitTemporary : kExitFile,
                "cannot rename " + partial + ": " + cause_text(cause) + "; " + remedy_text(cause, "check that disk"));
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

int fail_to_move(int cause, const std::string& from, const std::string& to) {
  return fail(is_temporary(cause) ? kExitTemporary : kExitFile,
              "cannot move " + from + " to " + to + ": " + cause_text(cause) + "; " +
                  remedy_text(cause, "check the permissions of the folder"));
}

// The database, with the files that belong to it, under another name. kExitOk, or an error already printed.
int move_aside(const std::string& path, const std::string& to) {
  for (const char* const end : {"-wal", "-shm", ""}) {
    const std::string old_name = path + end;
    const std::string new_name = to + end;
    const int cause = rename_durably(old_name.c_str(), new_name.c_str());
    if (cause != 0 && cause != ENOENT) {
      return fail_to_move(cause, old_name, new_name);
    }
  }
  return kExitOk;
}

// A whole database of ours, at `path`, copied from `from`. An objection says why not.
Objection check_copy(const std::string& path, const std::string& from) {
  SqliteDatabase database;
  SqliteOptions options;
  options.path = path;
  options.copy_of = from;
  options.may_create = false;
  options.check_integrity = true;
  return database.open(options) == StoreStatus::kOk ? Objection() : database.error();
}

}  // namespace

int restore(const CommonOptions& options, const std::string& from, bool replace) {
  if (from.empty()) {
    return fail(kExitUsage, "restore '': expected the path of a copy that `gradstream backup` has made");
  }
  Config config;
  if (const int code = load(options, &config); code != kExitOk) {
    return code;
  }
  const std::string& path = config.server.database;
  DatabaseLock lock;  // until the end: no server may start meanwhile
  const Objection served = lock.take(path);
  if (served) {
    return fail(kExitDatabase, served.sentence);
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
  const Objection damaged = check_copy(fresh, from);
  if (damaged) {
    ::unlink(fresh.c_str());
    return fail(kExitDatabase, damaged.sentence);
  }
  const std::string aside = path + ".before-" + std::to_string(wall_clock_ms());
  int code = is_there ? move_aside(path, aside) : int{kExitOk};
  if (code == kExitOk) {
    code = move_aside(fresh, path);
  }
  if (code != kExitOk) {
    return code;
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
