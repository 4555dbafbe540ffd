#include "server/store/wal_check.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <span>
#include <utility>
#include <vector>

namespace gradstream {

namespace {

constexpr size_t kHeaderSize = 32;
constexpr size_t kFrameHeaderSize = 24;
constexpr uint32_t kMagic = 0x377f0682;  // its lowest bit: checksums are of big-endian words
constexpr uint32_t kPageSizeMin = 512;
constexpr uint32_t kPageSizeMax = 65536;
constexpr int kReadingsMax = 5;  // of a log that changes; a command's transaction lasts milliseconds

using Header = std::array<uint8_t, kHeaderSize>;

uint32_t big_endian(std::span<const uint8_t> bytes, size_t at) {
  return uint32_t{bytes[at]} << 24 | uint32_t{bytes[at + 1]} << 16 | uint32_t{bytes[at + 2]} << 8 |
         uint32_t{bytes[at + 3]};
}

uint32_t little_endian(std::span<const uint8_t> bytes, size_t at) {
  return uint32_t{bytes[at + 3]} << 24 | uint32_t{bytes[at + 2]} << 16 | uint32_t{bytes[at + 1]} << 8 |
         uint32_t{bytes[at]};
}

struct Checksum {
  uint32_t first = 0;
  uint32_t second = 0;
  bool operator==(const Checksum&) const = default;

  void add(std::span<const uint8_t> bytes, bool is_big_endian) {
    const auto word = is_big_endian ? big_endian : little_endian;
    for (size_t at = 0; at < bytes.size(); at += 8) {
      first += word(bytes, at) + second;
      second += word(bytes, at + 4) + first;
    }
  }
};

Checksum stored_checksum(std::span<const uint8_t> bytes, size_t at) {
  return {big_endian(bytes, at), big_endian(bytes, at + 4)};
}

template <typename Bytes>
bool read(std::ifstream& file, Bytes& out) {
  file.read(reinterpret_cast<char*>(out.data()), static_cast<std::streamsize>(out.size()));
  return file.gcount() == static_cast<std::streamsize>(out.size());
}

// One reading of the log, frame after frame.
class WalReader {
 public:
  explicit WalReader(const Header& header)
      : header_(header), page_size_(big_endian(header, 8)), is_big_endian_((big_endian(header, 0) & 1U) != 0) {}

  bool is_header_whole() {
    checksum_.add(std::span(header_).first(kHeaderSize - 8), is_big_endian_);
    return (big_endian(header_, 0) & ~1U) == kMagic && page_size_ >= kPageSizeMin && page_size_ <= kPageSizeMax &&
           std::has_single_bit(page_size_) && checksum_ == stored_checksum(header_, kHeaderSize - 8);
  }

  Objection read_frames(std::ifstream& file) {
    std::vector<uint8_t> frame(kFrameHeaderSize + page_size_);
    uint64_t number = 1;
    while (read(file, frame) && fits(frame)) {
      ++number;
    }
    if (!file) {
      return {};
    }
    // The frame after a bad one continues its checksums, the true one or the one that it holds, if it was whole once.
    const bool may_be_commit = is_commit(frame);
    const Checksum held = stored_checksum(frame, 16);
    bool is_committed = is_of_log(frame) && may_be_commit;
    for (bool is_next = true; read(file, frame); is_next = false) {
      if (is_next && may_be_commit) {
        is_committed = is_committed || continues(frame, checksum_) || continues(frame, held);
      }
      if (is_of_log(frame) && is_committed) {
        return "frame " + std::to_string(number) + " does not fit its checksum, and later transactions follow it";
      }
      is_committed = is_committed || (is_of_log(frame) && is_commit(frame));
    }
    return {};
  }

 private:
  using Frame = std::span<const uint8_t>;

  static bool is_commit(Frame frame) { return big_endian(frame, 4) != 0; }
  bool is_of_log(Frame frame) const {  // by its salts
    return std::equal(frame.begin() + 8, frame.begin() + 16, header_.begin() + 16);
  }
  Checksum checksum_of(Frame frame, Checksum before) const {
    before.add(frame.first(8), is_big_endian_);
    before.add(frame.subspan(kFrameHeaderSize), is_big_endian_);
    return before;
  }
  bool continues(Frame frame, Checksum before) const {
    return is_of_log(frame) && checksum_of(frame, before) == stored_checksum(frame, 16);
  }
  bool fits(Frame frame) {
    checksum_ = checksum_of(frame, checksum_);
    return is_of_log(frame) && checksum_ == stored_checksum(frame, 16);
  }

  const Header& header_;
  const uint32_t page_size_;
  const bool is_big_endian_;
  Checksum checksum_;  // of all before, and of the frame that was read last
};

}  // namespace

Objection find_wal_damage(const std::string& database) {
  const std::string path = database + "-wal";
  Objection damage;
  Objection last;
  for (int i = 0; i < kReadingsMax; ++i) {
    std::ifstream file(path, std::ios::binary);
    Header header = {};
    if (!read(file, header)) {
      return {};  // none, or nothing was ever written behind its header
    }
    WalReader reader(header);
    const bool is_whole = reader.is_header_whole();
    const bool has_frames = file.peek() != std::ifstream::traits_type::eof();
    damage = is_whole ? reader.read_frames(file) : has_frames ? "its header does not fit its checksum" : "";
    const Objection before = std::exchange(last, damage);
    if (!damage || (i > 0 && damage == before)) {
      break;  // twice the same: nobody is just writing it
    }
  }
  return damage;
}

}  // namespace gradstream
