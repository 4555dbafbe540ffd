// Signed heads of the run that is served, a line each (server/journal/journal_head.h), in a file for a log host.
//
//   timer of the server's thread --every period_s--> job of the store's thread: read, sign, append, fsync
//
// A run that stands still writes no line. The file is opened for each line, so that logrotate may move it away, and it
// is never shortened: what keeps it small is logrotate's business.
#ifndef GRADSTREAM_SERVER_PROGRAM_HEAD_LOG_H_
#define GRADSTREAM_SERVER_PROGRAM_HEAD_LOG_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "server/base/asio_alias.h"
#include "server/journal/journal_head.h"
#include "server/program/head_key.h"
#include "server/store/expected.h"
#include "server/store/store_thread.h"

namespace gradstream {

// In the folder of the database.
inline constexpr const char* kHeadLogName = "heads.log";
std::string head_log_path(const std::string& database);

class HeadLog {
 public:
  // Reads the head at the last record that is durable, as read_head() does. On the store's thread.
  using Read = std::function<Expected<std::optional<JournalHead>>()>;

  // The store must outlive it, but for jobs that are not begun.
  HeadLog(asio::io_context& io, StoreThread& store, std::string path, Read read)
      : store_(store), path_(std::move(path)), read_(std::move(read)), timer_(io) {}
  HeadLog(const HeadLog&) = delete;
  HeadLog& operator=(const HeadLog&) = delete;

  // The first line comes a period from now. An objection: the key cannot be used.
  Objection begin(const std::string& key_file, uint32_t period_s);
  // Before the store stops: one more line, of all that it has stored by then.
  void end();

 private:
  void arm();
  void write();
  Objection append(const std::string& line) const;

  StoreThread& store_;
  const std::string path_;
  const Read read_;
  SteadyTimer timer_;
  uint32_t period_s_ = 0;
  HeadKey key_;                    // used on the store's thread alone, once begun
  uint64_t written_sequence_ = 0;  // of the last line; store's thread
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_PROGRAM_HEAD_LOG_H_
