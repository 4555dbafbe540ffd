#include "boards/flash_log.h"

#include <algorithm>
#include <cstring>

#include "runtime/base/crc32c.h"

namespace gradstream {
namespace {

constexpr uint32_t kMagic = 0x31474C47;   // "GLG1"
constexpr uint32_t kCommit = 0x0C0117ED;  // fills a unit
constexpr uint32_t kErased = 0xFFFFFFFF;
constexpr uint32_t kIndexMask = 0xFFFF;
// Copied and checked at once, on the stack.
constexpr uint32_t kChunkSize = 64;
static_assert(kChunkSize % kFlashUnitSize == 0);

struct PageHeader {
  uint32_t magic;
  uint32_t sequence;
  uint32_t page_size;
  uint32_t crc;
};
static_assert(sizeof(PageHeader) == kFlashUnitSize);

uint32_t crc_of(uint32_t crc, const void* words, size_t size) {
  return crc32c(crc, static_cast<const uint8_t*>(words), size);
}

constexpr uint32_t round_up(uint32_t size) { return (size + kFlashUnitSize - 1) / kFlashUnitSize * kFlashUnitSize; }

}  // namespace

// ---- Reading ----

Status FlashLog::open() {
  page_ = kFlashPageCount;
  sequence_ = 0;
  bool is_used = false;
  for (uint32_t page = 0; page < kFlashPageCount; ++page) {
    uint32_t sequence = 0;
    if (read_page_sequence(page, &sequence) && sequence > sequence_) {
      page_ = page;
      sequence_ = sequence;
    }
    is_used = is_used || !is_blank(page, 0);
  }
  scan();
  // A page is committed with a record in it.
  const bool is_lost = page_ == kFlashPageCount ? is_used : end_ == kPageHeaderSize;
  return is_lost ? Status::kDataCorrupt : Status::kOk;
}

bool FlashLog::read_page_sequence(uint32_t page, uint32_t* sequence) const {
  PageHeader header = {};
  uint32_t commit[kFlashUnitSize / 4] = {};
  flash_.read(page, 0, reinterpret_cast<uint8_t*>(&header), sizeof(header));
  flash_.read(page, sizeof(header), reinterpret_cast<uint8_t*>(commit), sizeof(commit));
  *sequence = header.sequence;
  const bool is_committed = std::all_of(std::begin(commit), std::end(commit), [](uint32_t w) { return w == kCommit; });
  return is_committed && header.magic == kMagic && header.page_size == flash_.page_size() &&
         header.crc == crc_of(0, &header, offsetof(PageHeader, crc));
}

// Walks the page in use; what does not hold ends it.
void FlashLog::scan() {
  end_ = kPageHeaderSize;
  is_closed_ = false;
  state_ = first_step_ = step_count_ = 0;
  if (page_ == kFlashPageCount) {
    return;
  }
  RecordHeader header = {};
  while (read_header(page_, end_, &header)) {
    if (!is_whole(page_, end_, header)) {
      is_closed_ = true;
      return;
    }
    note(end_, header.tag);
    end_ += record_size(header.size);
  }
  is_closed_ = !is_blank(page_, end_);
}

// false: the page ends here, or what stands here is no header; is_blank() tells the two apart.
bool FlashLog::read_header(uint32_t page, uint32_t offset, RecordHeader* out) const {
  if (offset + kRecordHeaderSize > flash_.page_size()) {
    return false;
  }
  flash_.read(page, offset, reinterpret_cast<uint8_t*>(out), sizeof(*out));
  return out->guard == ~out->tag && out->size <= flash_.page_size() &&
         offset + record_size(out->size) <= flash_.page_size();
}

bool FlashLog::is_whole(uint32_t page, uint32_t offset, const RecordHeader& header) const {
  uint8_t chunk[kChunkSize];
  uint32_t crc = crc_of(0, &header, offsetof(RecordHeader, crc));
  for (uint32_t done = 0; done < header.size; done += kChunkSize) {
    const uint32_t size = std::min(kChunkSize, header.size - done);
    flash_.read(page, offset + kRecordHeaderSize + done, chunk, size);
    crc = crc_of(crc, chunk, size);
  }
  return crc == header.crc;
}

Status FlashLog::check() const {
  RecordHeader header = {};
  for (uint32_t at = kPageHeaderSize; page_ != kFlashPageCount && at < end_; at += record_size(header.size)) {
    if (!read_header(page_, at, &header) || !is_whole(page_, at, header)) {
      return Status::kDataCorrupt;
    }
  }
  return Status::kOk;
}

bool FlashLog::is_blank(uint32_t page, uint32_t offset) const {
  uint32_t chunk[kChunkSize / 4];
  while (offset < flash_.page_size()) {
    const uint32_t size = std::min(kChunkSize, flash_.page_size() - offset);
    flash_.read(page, offset, reinterpret_cast<uint8_t*>(chunk), size);
    if (!std::all_of(chunk, chunk + size / 4, [](uint32_t word) { return word == kErased; })) {
      return false;
    }
    offset += size;
  }
  return true;
}

void FlashLog::note(uint32_t offset, uint32_t tag) {
  const uint32_t index = tag & kIndexMask;
  if ((tag & ~kIndexMask) == static_cast<uint32_t>(Kind::kState)) {
    state_ = offset;
    step_count_ = 0;
  } else if (index == 0 || index == step_count_) {
    first_step_ = index == 0 ? offset : first_step_;
    step_count_ = index + 1;
  }
}

size_t FlashLog::read(uint32_t offset, uint8_t* out, size_t capacity) const {
  RecordHeader header = {};
  if (!read_header(page_, offset, &header)) {
    return 0;
  }
  const uint32_t size = static_cast<uint32_t>(std::min<size_t>(capacity, header.size));
  flash_.read(page_, offset + kRecordHeaderSize, out, size);
  return header.size;
}

size_t FlashLog::read_state(uint8_t* out, size_t capacity) const {
  return state_ == 0 ? 0 : read(state_, out, capacity);
}

size_t FlashLog::read_step(uint32_t index, uint8_t* out, size_t capacity) const {
  if (index >= step_count_) {
    return 0;
  }
  uint32_t offset = first_step_;
  RecordHeader header = {};
  for (uint32_t i = 0; i < index && read_header(page_, offset, &header); ++i) {
    offset += record_size(header.size);
  }
  return read(offset, out, capacity);
}

// ---- Writing ----

Status FlashLog::write_state(const StoragePiece* pieces, size_t count) {
  return write(static_cast<uint32_t>(Kind::kState), pieces, count);
}

Status FlashLog::write_step(uint32_t index, const StoragePiece* pieces, size_t count) {
  if (index > kIndexMask || (index != 0 && index != step_count_)) {
    return Status::kInvalidArgument;
  }
  return write(static_cast<uint32_t>(Kind::kStep) | index, pieces, count);
}

Status FlashLog::write(uint32_t tag, const StoragePiece* pieces, size_t count) {
  Record record{tag, {pieces, count}, 0};
  const uint32_t most = flash_.page_size() - kPageHeaderSize - kRecordHeaderSize;
  for (const StoragePiece& piece : record.pieces) {
    if (piece.size > most - record.size) {
      return Status::kOutOfMemory;
    }
    record.size += static_cast<uint32_t>(piece.size);
  }
  if (!flash_.is_power_good()) {
    return Status::kClosed;
  }
  if (page_ != kFlashPageCount && !is_closed_ && record_size(record.size) <= flash_.page_size() - end_) {
    const Status status = append(record);
    if (status != Status::kDataCorrupt) {
      return status;
    }
  }
  return turn_page(record);
}

// kDataCorrupt: it does not read back; the page takes no more.
Status FlashLog::append(const Record& record) {
  is_closed_ = true;
  GS_TRY(put_record(page_, end_, record));
  is_closed_ = false;
  note(end_, record.tag);
  end_ += record_size(record.size);
  return Status::kOk;
}

// The other page takes over with what is still of use and the record.
Status FlashLog::turn_page(const Record& record) {
  const uint32_t page = page_ == 0 ? 1 : 0;
  GS_TRY(flash_.erase(page));
  PageHeader header{kMagic, sequence_ + 1, flash_.page_size(), 0};
  header.crc = crc_of(0, &header, offsetof(PageHeader, crc));
  GS_TRY(program(page, 0, &header, sizeof(header)));
  uint32_t offset = kPageHeaderSize;
  GS_TRY(copy_live(page, &offset, record));
  if (record_size(record.size) > flash_.page_size() - offset) {
    return Status::kOutOfMemory;
  }
  GS_TRY(put_record(page, offset, record));
  uint32_t commit[kFlashUnitSize / 4];
  std::fill(std::begin(commit), std::end(commit), kCommit);
  GS_TRY(program(page, sizeof(header), commit, sizeof(commit)));
  page_ = page;
  ++sequence_;
  scan();
  return Status::kOk;
}

Status FlashLog::copy_live(uint32_t to, uint32_t* offset, const Record& next) const {
  if ((next.tag & ~kIndexMask) == static_cast<uint32_t>(Kind::kState)) {
    return Status::kOk;
  }
  if (state_ != 0) {
    GS_TRY(copy_record(state_, to, offset));
  }
  uint32_t from = first_step_;
  for (uint32_t i = 0; i < (next.tag & kIndexMask); ++i) {
    RecordHeader header = {};
    if (!read_header(page_, from, &header)) {
      return Status::kDataCorrupt;
    }
    GS_TRY(copy_record(from, to, offset));
    from += record_size(header.size);
  }
  return Status::kOk;
}

Status FlashLog::copy_record(uint32_t from, uint32_t to_page, uint32_t* to) const {
  RecordHeader header = {};
  if (!read_header(page_, from, &header) || record_size(header.size) > flash_.page_size() - *to) {
    return Status::kOutOfMemory;
  }
  uint8_t chunk[kChunkSize];
  const uint32_t end = record_size(header.size);
  for (uint32_t done = kRecordHeaderSize; done < end; done += kChunkSize) {
    const uint32_t size = std::min(kChunkSize, end - done);
    flash_.read(page_, from + done, chunk, size);
    GS_TRY(program(to_page, *to + done, chunk, size));
  }
  GS_TRY(program(to_page, *to, &header, sizeof(header)));
  if (!is_whole(to_page, *to, header)) {
    return Status::kDataCorrupt;
  }
  *to += end;
  return Status::kOk;
}

// Content first, then the header, then a look at both.
Status FlashLog::put_record(uint32_t page, uint32_t offset, const Record& record) const {
  RecordHeader header{record.tag, record.size, 0, ~record.tag};
  header.crc = crc_of(0, &header, offsetof(RecordHeader, crc));
  GS_TRY(put_content(page, offset + kRecordHeaderSize, record, &header.crc));
  GS_TRY(program(page, offset, &header, sizeof(header)));
  RecordHeader written = {};
  const bool reads_back = read_header(page, offset, &written) && written.tag == header.tag &&
                          written.crc == header.crc && is_whole(page, offset, written);
  return reads_back ? Status::kOk : Status::kDataCorrupt;
}

Status FlashLog::put_content(uint32_t page, uint32_t offset, const Record& record, uint32_t* crc) const {
  uint8_t chunk[kChunkSize];
  uint32_t filled = 0;
  for (const StoragePiece& piece : record.pieces) {
    *crc = crc_of(*crc, piece.bytes, piece.size);
    for (size_t done = 0; done < piece.size;) {
      const uint32_t size = static_cast<uint32_t>(std::min<size_t>(kChunkSize - filled, piece.size - done));
      std::memcpy(chunk + filled, piece.bytes + done, size);
      filled += size;
      done += size;
      if (filled == kChunkSize) {
        GS_TRY(program(page, offset, chunk, kChunkSize));
        offset += kChunkSize;
        filled = 0;
      }
    }
  }
  std::memset(chunk + filled, 0xFF, round_up(filled) - filled);
  return filled == 0 ? Status::kOk : program(page, offset, chunk, round_up(filled));
}

Status FlashLog::program(uint32_t page, uint32_t offset, const void* bytes, uint32_t size) const {
  return flash_.is_power_good() ? flash_.program(page, offset, static_cast<const uint8_t*>(bytes), size)
                                : Status::kClosed;
}

}  // namespace gradstream
