// The files of one `gradstream data pack`: all shards are written beside their names first, then they get their names.
// Without force all appear under their names, or none does.
#ifndef GRADSTREAM_SERVER_PROGRAM_SHARD_WRITER_H_
#define GRADSTREAM_SERVER_PROGRAM_SHARD_WRITER_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace gradstream {

class ShardWriter {
 public:
  // force: shards that are there are replaced.
  ShardWriter(std::string folder, bool force);
  // Takes back what has not been finished: files that it made, and the folder.
  ~ShardWriter();
  ShardWriter(const ShardWriter&) = delete;
  ShardWriter& operator=(const ShardWriter&) = delete;

  // Makes the folder where it is missing. 0, or errno; so do the next two.
  int open_folder();
  // Into a new file in the folder of the path: `.gradstream-PROCESS-N.part`. One that is there is another's, and stays.
  int write(const std::string& path, std::span<const uint8_t> bytes);
  // Gives all files their names. *path: the one that failed.
  int finish(std::string* path);
  // Whether a shard of before is gone already, which only force allows.
  bool has_replaced() const { return has_replaced_; }

 private:
  struct Part {
    std::string name;  // until the shard is put under its path
    std::string path;
  };
  int put(const Part& part);

  const std::string folder_;
  const bool force_;
  bool is_new_folder_ = false;
  bool has_replaced_ = false;
  uint64_t part_count_ = 0;
  std::vector<Part> parts_;
  std::vector<std::string> made_;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_PROGRAM_SHARD_WRITER_H_
