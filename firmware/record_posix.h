// What a Linux client was told of its updates, line by line in a file: tests fold the run again by it.
#ifndef GRADSTREAM_FIRMWARE_RECORD_POSIX_H_
#define GRADSTREAM_FIRMWARE_RECORD_POSIX_H_

#include <cstdint>
#include <span>
#include <string>

#include "firmware/client_main.h"
#include "runtime/link/client.h"

namespace gradstream {

// A cause beside errno: users beside the owner have rights on the file.
inline constexpr int kRecordOfOthers = -1;

// Lines as of bench/lineage.h, with the values of the update behind them: values=HEX, f32, little-endian. Whoever reads
// them knows what the server knows of the device's data, so that the file is its owner's alone.
class UpdateRecord {
 public:
  UpdateRecord() = default;
  ~UpdateRecord();
  UpdateRecord(const UpdateRecord&) = delete;
  UpdateRecord& operator=(const UpdateRecord&) = delete;

  // Goes on behind what the file has. A new file gets mode 600; one that is there must have no right of others. 0, or
  // the cause (errno; ESPIPE: no ordinary file; ELOOP: a link), or kRecordOfOthers. Waits for nobody.
  int open(const std::string& path);
  // Adds a line for each update that it is told of. It outlives the device.
  const JudgedUpdates& listener() const { return listener_; }

 private:
  static void tell(void* self, uint32_t device, const StoredUpload& update, std::span<const uint8_t> bytes,
                   const gs_Ack& ack);
  void add(uint32_t device, const StoredUpload& update, std::span<const uint8_t> bytes, const gs_Ack& ack);

  const JudgedUpdates listener_ = {tell, this};
  int file_ = -1;
  std::string path_;
  bool is_broken_ = false;
};

// --record; an empty path: there is none. 0, or the exit status of a file that cannot be written or that others may
// read, which is logged.
int open_record(const std::string& path, UpdateRecord* record, ClientMainOptions* options);

}  // namespace gradstream

#endif  // GRADSTREAM_FIRMWARE_RECORD_POSIX_H_
