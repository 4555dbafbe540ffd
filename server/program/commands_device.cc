// The verbs `device` and `claim` of the program `gradstream`: identities, and the claims by which devices enrol.
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
#include "server/program/fleet_home.h"
#include "server/program/past_runs.h"

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

// What a verb has written for a change, and takes back where that does not count.
struct KeyFiles {
  std::vector<std::string> paths;
  std::string folder;  // that was made for them; empty: it was there
  void remove() const {
    for (const std::string& path : paths) {
      ::unlink(path.c_str());
    }
    if (!folder.empty()) {
      ::rmdir(folder.c_str());
    }
  }
};

// Behind the change of a verb: whether it counts. Files stay where nobody knows: a device may be enrolled by the key
// that is in one.
int finish_change(FleetHome& fleet, const KeyFiles& files) {
  const FleetCommit commit = fleet.commit();
  if (commit.code != kExitOk && !commit.may_count) {
    files.remove();
  } else if (commit.code != kExitOk && !files.paths.empty()) {
    warn("keep " + files.paths.front() +
         (files.paths.size() > 1 ? " and the " + std::to_string(files.paths.size() - 1) + " others" : "") +
         ": the key in it counts if the change does");
  }
  return commit.code;
}

}  // namespace

int device_add(FleetHome& fleet, const std::string& name, const std::string& out, bool is_pending) {
  if (!is_device_name(name)) {
    return fail(kExitUsage, "device name '" + name + "': expected " + kDeviceNameRule);
  }
  if (const Objection fault = find_out_fault("--out", out)) {
    return fail(kExitUsage, fault.sentence);
  }
  if (const int code = fleet.open(FleetUse::kMake); code != kExitOk) {
    return code;
  }
  SqliteDatabase& database = fleet.database();
  DeviceKey key = {};
  if (!draw_key(&key)) {
    return fail_random();
  }
  std::string problem;
  if (const CommandExit code = write_identity(out, name, key, {}, &problem); code != kExitOk) {
    return fail(code, problem);
  }
  const DeviceState state = is_pending ? DeviceState::kPending : DeviceState::kActive;
  const Expected<std::optional<uint32_t>> index = database.add_device(name, key, fleet.now_ms(), state);
  if (!index.is_ok() || !*index) {
    ::unlink(out.c_str());
    return !index.is_ok() ? fail_database(database)
                          : fail(kExitNotFound, "device " + name + " is enrolled already; names are never used twice");
  }
  if (const int code = finish_change(fleet, {{out}, ""}); code != kExitOk) {
    return code;
  }
  OutputLine line;
  line.add("device", name).add("index", uint64_t{**index}).add("identity_file", out);
  fleet.add_place(&line);
  line.add("state", device_state_text(state)).print(fleet.options());
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

// kExitOk, or an error already printed.
int make_folder(const std::string& folder, KeyFiles* files) {
  if (::mkdir(folder.c_str(), S_IRWXU) == 0) {
    files->folder = folder;
  } else if (errno != EEXIST) {
    const int cause = errno;
    return fail(is_temporary(cause) ? kExitTemporary : kExitFile,
                "--out-folder " + folder + " cannot be made: " + cause_text(cause) + "; nothing was enrolled; " +
                    remedy_text(cause, "check the folder above it"));
  }
  return kExitOk;
}

// Draws keys for the names, and writes a file for each. kExitOk; or an error already printed, and no file stays.
int write_keys(const std::set<std::string>& drawn, const std::string& folder, std::vector<EnrolledDevice>* imported,
               KeyFiles* files) {
  for (EnrolledDevice& row : *imported) {
    if (!drawn.contains(row.name)) {
      continue;
    }
    const std::string path = folder + "/" + row.name + ".identity";
    Objection problem = row.name.find('/') != std::string::npos ? "a name with / has no file: " + row.name
                        : !draw_key(&row.key)                   ? "no random bytes"
                                                                : "";
    const CommandExit code = problem ? kExitFile : write_identity(path, row.name, row.key, {}, &problem.sentence);
    if (code != kExitOk) {
      files->remove();
      return fail(code, problem.sentence + "; nothing was enrolled");
    }
    files->paths.push_back(path);
  }
  return kExitOk;
}

// kExitOk, or an error already printed.
int enrol_all(FleetHome& fleet, std::vector<EnrolledDevice>& imported, DeviceState state, const KeyFiles& files) {
  for (EnrolledDevice& row : imported) {
    row.state = state;
  }
  const Expected<std::string> taken = fleet.database().add_devices(imported, fleet.now_ms());
  if (!taken.is_ok() || !taken->empty()) {
    files.remove();
    return !taken.is_ok() ? fail_database(fleet.database())
                          : fail(kExitNotFound, "device " + *taken + " is enrolled already; nothing was enrolled");
  }
  if (const int code = finish_change(fleet, files); code != kExitOk) {
    return code;
  }
  OutputLine line;
  line.add("devices", uint64_t{imported.size()})
      .add("identity_files", uint64_t{files.paths.size()})
      .add("state", device_state_text(state));
  fleet.add_place(&line);
  line.print(fleet.options());
  return kExitOk;
}

}  // namespace

int device_import(FleetHome& fleet, const ImportOptions& import) {
  const std::string& file = import.file;
  if (file.empty()) {
    return fail(kExitUsage, "device import '': expected the path of a CSV file with lines NAME or NAME,KEY");
  }
  std::vector<EnrolledDevice> imported;
  std::set<std::string> drawn;
  if (const Objection problem = read_import(file, &imported, &drawn)) {
    return fail(kExitFile, problem.sentence);
  }
  if (drawn.size() < imported.size() && is_read_by_others(file)) {
    return fail(kExitFile, file + " holds keys and can be read by others; chmod 600 " + file);
  }
  if (!drawn.empty() && import.out_folder.empty()) {
    return fail(kExitUsage, file + " has names without a key: name a folder for their files with --out-folder");
  }
  int code = fleet.open(FleetUse::kMake);
  if (code == kExitOk && drawn.size() < imported.size()) {
    code = check_keys(imported, fleet.database());
  }
  KeyFiles files;
  if (code == kExitOk && !drawn.empty()) {
    code = make_folder(import.out_folder, &files);
  }
  if (code == kExitOk) {
    code = write_keys(drawn, import.out_folder, &imported, &files);
  }
  if (code == kExitOk) {
    code = enrol_all(fleet, imported, import.is_pending ? DeviceState::kPending : DeviceState::kActive, files);
  }
  return code;
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

int device_rotate(FleetHome& fleet, const std::string& name, const std::string& out, uint32_t window_s) {
  if (const Objection fault = find_out_fault("--out", out)) {
    return fail(kExitUsage, fault.sentence);
  }
  if (const int code = fleet.open(FleetUse::kChange); code != kExitOk) {
    return code;
  }
  SqliteDatabase& database = fleet.database();
  EnrolledDevice row;
  if (const int code = find_rotatable(database, name, &row); code != kExitOk) {
    return code;
  }
  const std::string identity = identity_of_generation(name, row.generation + 1);
  DeviceKey key = {};
  if (!draw_key(&key)) {
    return fail_random();
  }
  uint64_t now_ms = fleet.now_ms();
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
  if (const int code = finish_change(fleet, {{out}, ""}); code != kExitOk) {
    return code;
  }
  OutputLine()
      .add("device", name)
      .add("identity", identity)
      .add("identity_file", out)
      .add("previous_until_ms", until_ms)
      .print(fleet.options());
  return kExitOk;
}

int device_ask_for_key(FleetHome& fleet, const std::string& name, uint32_t window_s) {
  if (const int code = fleet.open(FleetUse::kChange); code != kExitOk) {
    return code;
  }
  SqliteDatabase& database = fleet.database();
  EnrolledDevice device;
  if (const int code = find_rotatable(database, name, &device); code != kExitOk) {
    return code;
  }
  KeyChangeRow row;
  if (!draw_key(&row.server_secret)) {
    return fail_random();
  }
  row.window_s = window_s;
  row.since_ms = fleet.now_ms();
  if (database.note_time(&row.since_ms) != StoreStatus::kOk) {
    return fail_database(database);
  }
  const Expected<bool> is_asked = database.request_key_change(name, row);
  if (!is_asked.is_ok() || !*is_asked) {
    return !is_asked.is_ok() ? fail_database(database)
                             : fail(kExitNotFound, "device " + name + " was revoked by somebody else");
  }
  if (const int code = finish_change(fleet, {}); code != kExitOk) {
    return code;
  }
  if (fleet.is_of_nodes()) {
    warn(
        "nodes ask no device for a key, and the request waits for a single server; beside nodes gradstream device "
        "rotate --out makes the new key");
  }
  OutputLine()
      .add("device", name)
      .add("identity", identity_of_generation(name, device.generation + 1))
      .add("key_change", "waiting")
      .add("since_ms", row.since_ms)
      .add("until_ms", row.since_ms + kKeyChangeAgeMaxMs)
      .print(fleet.options());
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

int device_list(FleetHome& fleet) {
  if (const int code = fleet.open(FleetUse::kLook); code != kExitOk) {
    return code;
  }
  SqliteDatabase& database = fleet.database();
  const Expected<std::vector<EnrolledDevice>> devices = database.devices();
  if (!devices.is_ok()) {
    return fail_database(database);
  }
  const Expected<uint64_t> latest_ms = database.latest_time();
  if (!latest_ms.is_ok()) {
    return fail_database(database);
  }
  const uint64_t now_ms = std::max(*latest_ms, fleet.now_ms());
  for (const EnrolledDevice& device : *devices) {
    OutputLine line;
    add_identity(device, now_ms, &line);
    line.print(fleet.options());
  }
  return kExitOk;
}

int device_set_state(FleetHome& fleet, const std::string& name, DeviceState state) {
  if (const int code = fleet.open(FleetUse::kChange); code != kExitOk) {
    return code;
  }
  SqliteDatabase& database = fleet.database();
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
  if (const int code = finish_change(fleet, {}); code != kExitOk) {
    return code;
  }
  OutputLine().add("device", name).add("state", device_state_text(state)).print(fleet.options());
  return kExitOk;
}

// ---- Claims --------------------------------------------------------------------------------------------------------

int claim_add(FleetHome& fleet, const ClaimOptions& claim) {
  if (!is_claimable_name(claim.name)) {
    return fail(kExitUsage, "claim name '" + claim.name + "': expected " + kDeviceNameRule + ", and no /");
  }
  if (const Objection fault = find_out_fault("--out", claim.out)) {
    return fail(kExitUsage, fault.sentence);
  }
  if (claim.window_s == 0) {
    return fail(kExitUsage, "--window-s 0: expected 1 to 4294967295 s; a claim that has ended lets nobody in");
  }
  if (const int code = fleet.open(FleetUse::kMake); code != kExitOk) {
    return code;
  }
  SqliteDatabase& database = fleet.database();
  ClaimRow row;
  row.name = claim.name;
  row.count_max = claim.count_max;
  row.created_ms = fleet.now_ms();
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
  if (const int code = finish_change(fleet, {{claim.out}, ""}); code != kExitOk) {
    return code;
  }
  if (fleet.is_of_nodes()) {
    warn(
        "nodes let nobody in by a claim, and it waits for a single server; beside nodes gradstream device add and "
        "device import enrol devices");
  }
  OutputLine()
      .add("claim", row.name)
      .add("identity_file", claim.out)
      .add("count_max", uint64_t{row.count_max})
      .add("expires_ms", row.expires_ms)
      .add("devices_are", device_state_text(row.device_state))
      .print(fleet.options());
  return kExitOk;
}

int claim_list(FleetHome& fleet) {
  if (const int code = fleet.open(FleetUse::kLook); code != kExitOk) {
    return code;
  }
  SqliteDatabase& database = fleet.database();
  const Expected<std::vector<ClaimRow>> rows = database.claims();
  if (!rows.is_ok()) {
    return fail_database(database);
  }
  const Expected<uint64_t> latest_ms = database.latest_time();
  if (!latest_ms.is_ok()) {
    return fail_database(database);
  }
  const uint64_t now_ms = std::max(*latest_ms, fleet.now_ms());
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
    line.print(fleet.options());
  }
  return kExitOk;
}

int claim_end(FleetHome& fleet, const std::string& name) {
  if (const int code = fleet.open(FleetUse::kChange); code != kExitOk) {
    return code;
  }
  SqliteDatabase& database = fleet.database();
  const Expected<bool> found = database.end_claim(name, fleet.now_ms());
  if (!found.is_ok()) {
    return fail_database(database);
  }
  if (!*found) {
    return fail(kExitNotFound, "no claim " + name + "; `gradstream claim list` shows all");
  }
  if (const int code = finish_change(fleet, {}); code != kExitOk) {
    return code;
  }
  OutputLine().add("claim", name).add("state", "ended").print(fleet.options());
  return kExitOk;
}

}  // namespace gradstream
