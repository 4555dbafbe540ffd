// A file for log lines that a reader on its other end can neither end nor stop.
//
//   line -> room within the wait? yes: written
//                                 no:  dropped and counted -> once lines pass again: one line with the count
#ifndef GRADSTREAM_HOST_LOG_FILE_H_
#define GRADSTREAM_HOST_LOG_FILE_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <sys/uio.h>

namespace gradstream {

// All waits for room in one period together. Reason: a busy reader gets the time to catch up, and a reader that stands
// still costs the process a fortieth of its time.
constexpr uint64_t kLogWaitMaxMs = 250;
constexpr uint64_t kLogWaitPeriodMs = 10000;

// Not thread-safe. It uses no heap.
class LogFile {
 public:
  // The file must outlive the object. Its flags stay as they are: other processes may share them.
  explicit LogFile(int file) : file_(file) {}
  ~LogFile();
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  // Writes the prefix, the text and a newline. false: the line is lost, and counted. SIGPIPE must be ignored.
  bool write(std::string_view text, std::string_view prefix = "");
  // Lines lost since the last one that write_count() has written.
  uint64_t lost_count() const { return lost_count_; }
  // The same for the line that names lost_count(), which is 0 after it. A count that cannot be written stays.
  bool write_count(std::string_view text, std::string_view prefix = "");

 private:
  enum class Kind : uint8_t { kUnknown, kSocket, kPipe, kTerminal, kFile };
  bool put_line(std::string_view text, std::string_view prefix);
  ssize_t put(const iovec* parts, int count);
  bool wait_for_room();
  void find_kind();

  int file_;
  int own_file_ = -1;  // the same pipe or terminal, opened again so that no write of this object blocks
  Kind kind_ = Kind::kUnknown;
  bool is_torn_ = false;  // a line was begun, and its end is lost
  uint64_t lost_count_ = 0;
  uint64_t period_begin_ms_ = 0;
  uint64_t waited_ms_ = 0;  // in the period
};

// For the handler of a signal and for the last words of a process: writes the text, which ends with a newline, to
// standard error if there is room within kLogWaitMaxMs.
void write_last_line(const char* text);

}  // namespace gradstream

#endif  // GRADSTREAM_HOST_LOG_FILE_H_
