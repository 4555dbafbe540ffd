// What a client must not lose with its power: its state after each task, and the local steps of the task in progress.
//
//   page 0   header | commit | state | step 0 | step 1 | state | step 0 | ...      -> full: the other page begins
//   page 1   erased
//
// Records are appended, so that a page is erased once for all the records that fill it, and the two pages take turns:
// both wear alike. A record counts when its header, which is written last, and its CRC-32C hold. A page counts when its
// commit word holds, which is written after the records that were still of use have been copied into it; the one with
// the higher sequence is in use. So a cut inside any call of the flash leaves the log as before that record or with it.
// What a cut has torn is never written over: the log goes on in the other page.
//
// A new state puts all steps before it out of use, and step 0 those of the task before.
#ifndef GRADSTREAM_BOARDS_FLASH_LOG_H_
#define GRADSTREAM_BOARDS_FLASH_LOG_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "boards/flash.h"
#include "runtime/link/port.h"

namespace gradstream {

class FlashLog {
 public:
  // The table must outlive the log; open() comes first.
  explicit FlashLog(const FlashOps& flash) : flash_(flash) {}
  FlashLog(const FlashLog&) = delete;
  FlashLog& operator=(const FlashLog&) = delete;

  // Finds what is there. kDataCorrupt: something is, but neither page holds together, or no record of the one in use
  // does; the log is then empty and usable.
  Status open();

  // The pieces one after the other, in place of the state before. kOutOfMemory: more than a page takes; kClosed: the
  // flash or its supply failed; kDataCorrupt: what was written does not read back, in both pages. On an error the
  // state and the steps before it stay.
  Status write_state(const StoragePiece* pieces, size_t count);
  // Size of the state (0: there is none) and its first bytes, up to capacity.
  size_t read_state(uint8_t* out, size_t capacity) const;

  // Step `index` of the task in progress: 0, which forgets those before, or the count of those that are there
  // (kInvalidArgument otherwise). Codes as write_state.
  Status write_step(uint32_t index, const StoragePiece* pieces, size_t count);
  size_t read_step(uint32_t index, uint8_t* out, size_t capacity) const;
  uint32_t step_count() const { return step_count_; }

  // Reads all records of the page in use. kDataCorrupt: one of them does not hold any more.
  Status check() const;

  // Erases so far, both pages together: about half of it wears each.
  uint32_t erase_count() const { return sequence_; }

  // Flash that a record of so many bytes takes.
  static constexpr uint32_t record_size(uint32_t size) {
    return kRecordHeaderSize + (size + kFlashUnitSize - 1) / kFlashUnitSize * kFlashUnitSize;
  }
  static constexpr uint32_t kPageHeaderSize = 2 * kFlashUnitSize;
  static constexpr uint32_t kRecordHeaderSize = kFlashUnitSize;

 private:
  enum class Kind : uint32_t { kState = 0x53000000, kStep = 0x54000000 };  // the lower half: a step's index
  struct RecordHeader {
    uint32_t tag;
    uint32_t size;   // of the content
    uint32_t crc;    // of tag, size and content
    uint32_t guard;  // not tag: a header that is half there is none
  };
  struct Record {
    uint32_t tag;
    std::span<const StoragePiece> pieces;
    uint32_t size;
  };

  Status write(uint32_t tag, const StoragePiece* pieces, size_t count);
  Status append(const Record& record);
  Status turn_page(const Record& record);
  Status copy_live(uint32_t to, uint32_t* offset, const Record& next) const;
  Status copy_record(uint32_t from, uint32_t to_page, uint32_t* to) const;
  Status put_record(uint32_t page, uint32_t offset, const Record& record) const;
  Status put_content(uint32_t page, uint32_t offset, const Record& record, uint32_t* crc) const;
  Status program(uint32_t page, uint32_t offset, const void* bytes, uint32_t size) const;
  bool read_header(uint32_t page, uint32_t offset, RecordHeader* out) const;
  bool is_whole(uint32_t page, uint32_t offset, const RecordHeader& header) const;
  bool is_blank(uint32_t page, uint32_t offset) const;
  bool read_page_sequence(uint32_t page, uint32_t* sequence) const;
  void scan();
  void note(uint32_t offset, uint32_t tag);
  size_t read(uint32_t offset, uint8_t* out, size_t capacity) const;

  const FlashOps& flash_;
  uint32_t page_ = kFlashPageCount;  // in use; kFlashPageCount: none
  uint32_t sequence_ = 0;
  uint32_t end_ = 0;         // where the next record goes
  bool is_closed_ = false;   // no further record goes into this page
  uint32_t state_ = 0;       // offset of the state; 0: there is none
  uint32_t first_step_ = 0;  // offset of step 0
  uint32_t step_count_ = 0;
};

}  // namespace gradstream

#endif  // GRADSTREAM_BOARDS_FLASH_LOG_H_
