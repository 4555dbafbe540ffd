#include "firmware/record_posix.h"

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "firmware/fail_posix.h"
#include "runtime/base/crc32c.h"
#include "runtime/link/port.h"
#include "runtime/training/encoding.h"

namespace gradstream {
namespace {

constexpr mode_t kOwnersAlone = 0600;
constexpr mode_t kOthersRights = S_IRWXG | S_IRWXO;

// As they were folded, in f32. Empty: an update that has no values, as those of the stages before training.
std::vector<uint8_t> value_bytes(const StoredUpload& update, std::span<const uint8_t> bytes) {
  std::vector<Real> values(update.value_count);
  if (update.stage != TaskStage::kTrain ||
      decode_values(update.encoding, values.size(), bytes.data(), bytes.size(), values.data()) != Status::kOk) {
    return {};
  }
  std::vector<uint8_t> out(values.size() * sizeof(float));
  for (size_t i = 0; i < values.size(); ++i) {
    const auto value = static_cast<float>(values[i]);
    std::memcpy(out.data() + i * sizeof value, &value, sizeof value);
  }
  return out;
}

std::string line_of(uint32_t device, const StoredUpload& update, const std::vector<uint8_t>& values,
                    const gs_Ack& ack) {
  const auto at_ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now().time_since_epoch());
  char text[256];
  (void)std::snprintf(text, sizeof text,
                      "event=ack device=%u task_sequence=%u base_version=%u version=%u verdict=%u duplicate=%u "
                      "steps=%u crc32c=%08x at_ms=%llu values=",
                      device, update.task_sequence, update.base_version, static_cast<unsigned>(ack.version),
                      static_cast<unsigned>(ack.verdict), ack.duplicate ? 1U : 0U, update.steps_done,
                      crc32c(0, values.data(), values.size()), static_cast<unsigned long long>(at_ms.count()));
  std::string line = text;
  for (const uint8_t byte : values) {
    constexpr char kDigits[] = "0123456789abcdef";
    line += kDigits[byte >> 4];
    line += kDigits[byte & 15];
  }
  return line + "\n";
}

bool is_ordinary(const struct stat& info) { return S_ISREG(info.st_mode); }

// Why no file was opened at this path. ENXIO is a pipe that nobody reads, or a socket; else the disk is gone.
int cause_of(int error, const std::string& path) {
  struct stat info = {};
  return error == ENXIO && ::lstat(path.c_str(), &info) == 0 && !is_ordinary(info) ? ESPIPE : error;
}

const char* remedy_of(int cause) {
  switch (cause) {
    case ELOOP:
      return "name the file itself, and no link to it";
    case ESPIPE:
      return "name a file that is not there yet";
    default:
      return "name a file in a folder that is there";
  }
}

}  // namespace

UpdateRecord::~UpdateRecord() {
  if (file_ >= 0) {
    (void)::close(file_);
  }
}

// O_NONBLOCK: nobody waits for the reader of a pipe. O_CREAT gives a mode to new files alone.
int UpdateRecord::open(const std::string& path) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY;
  path_ = path;
  const int file = ::open(path.c_str(), kFlags, kOwnersAlone);
  if (file < 0) {
    return cause_of(errno, path);
  }
  struct stat info = {};
  int cause = ::fstat(file, &info) == 0 ? 0 : errno;
  if (cause == 0 && !is_ordinary(info)) {
    cause = ESPIPE;
  }
  if (cause == 0 && (info.st_mode & kOthersRights) != 0) {
    cause = kRecordOfOthers;
  }
  if (cause != 0) {
    (void)::close(file);
    return cause;
  }
  file_ = file;
  return 0;
}

void UpdateRecord::tell(void* self, uint32_t device, const StoredUpload& update, std::span<const uint8_t> bytes,
                        const gs_Ack& ack) {
  static_cast<UpdateRecord*>(self)->add(device, update, bytes, ack);
}

// A line is with the kernel before the client goes on, so that an end of the process loses none.
void UpdateRecord::add(uint32_t device, const StoredUpload& update, std::span<const uint8_t> bytes, const gs_Ack& ack) {
  const std::vector<uint8_t> values = value_bytes(update, bytes);
  if (values.empty()) {
    return;
  }
  const std::string line = line_of(device, update, values, ack);
  const bool is_written = ::write(file_, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  if (!is_written && !is_broken_) {
    is_broken_ = true;
    port_log_line(
        ("event=warning reason=\"cannot write " + path_ + ": it lacks updates; free its disk, and start again\"")
            .c_str());
  }
}

int open_record(const std::string& path, UpdateRecord* record, ClientMainOptions* options) {
  if (path.empty()) {
    return kExitOk;
  }
  const int cause = record->open(path);
  if (cause == kRecordOfOthers) {
    return fail(kExitUsage, "cannot write the record " + path +
                                ": others have rights on the file, and updates tell of the data; chmod 600 " + path +
                                ", or name a file that is not there yet");
  }
  if (cause != 0) {
    return fail_path(kExitUsage, cause, path, "write the record", remedy_of(cause));
  }
  options->judged = &record->listener();
  return kExitOk;
}

}  // namespace gradstream
