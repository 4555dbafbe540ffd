#include "server/program/head_log.h"

#include <cerrno>
#include <chrono>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/durable_file.h"
#include "host/file_cause.h"
#include "server/base/log.h"

namespace gradstream {

std::string head_log_path(const std::string& database) {
  return database.substr(0, database.rfind('/') + 1) + kHeadLogName;
}

Objection HeadLog::begin(const std::string& key_file, uint32_t period_s) {
  period_s_ = period_s;
  Objection problem = key_.read_private(key_file);
  if (!problem) {
    arm();
  }
  return problem;
}

void HeadLog::end() {
  timer_.cancel();
  if (key_.is_set()) {
    store_.run_after([this] { write(); });
  }
}

void HeadLog::arm() {
  timer_.expires_after(std::chrono::seconds(period_s_));
  timer_.async_wait([this](const ErrorCode& error) {
    if (!error) {
      store_.run_after([this] { write(); });
      arm();
    }
  });
}

// What cannot be written now is tried with the next head, which says all that this one would have said.
void HeadLog::write() {
  const Expected<std::optional<JournalHead>> head = read_();
  if (head.is_ok() && (!*head || (*head)->record.sequence == written_sequence_)) {
    return;
  }
  Objection problem = head.is_ok() ? "" : std::string(cause_of(head.status()));
  if (!problem) {
    const std::vector<uint8_t> signature = key_.sign(head_text(**head));
    problem = signature.empty() ? "it cannot be signed: no memory, or no random bytes"
                                : append(signed_head_text(**head, signature) + "\n");
  }
  if (problem) {
    log_event("head_failed"_event, Fields().add("file", path_).add("cause", problem.sentence));
    return;
  }
  written_sequence_ = (*head)->record.sequence;
}

Objection HeadLog::append(const std::string& line) const {
  const int file =
      ::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, S_IRUSR | S_IWUSR | S_IRGRP | S_IROTH);
  // A line that a full disk or a power cut tore stays, and the next one begins behind it.
  char last = '\n';
  const off_t size = file < 0 ? 0 : ::lseek(file, 0, SEEK_END);
  const bool is_torn = size > 0 && ::pread(file, &last, 1, size - 1) == 1 && last != '\n';
  const std::string text = (is_torn ? "\n" : "") + line;
  const int cause = file < 0 ? errno : write_durably(file, text.data(), text.size());
  if (file >= 0) {
    ::close(file);
  }
  return cause == 0 ? "" : std::string(cause_text(cause));
}

}  // namespace gradstream
