// The lineage of a run, as its devices have it: what gradstream-load writes down, and gradstream-lineage folds again.
//
// A line of text for each event, key=value:
//   event=ack device=3 task_sequence=7 base_version=4 version=5 verdict=1 duplicate=0 steps=1 crc32c=0123abcd at_ms=99
//   event=lost device=3 at_ms=120 wait_ms=1500
//   event=back device=3 at_ms=1640
//
// A client that trains has its own values, so that its line ends with them: values=HEX, f32, little-endian
// (firmware/record_posix.h).
//
// ack: an update has its Ack. lost: a session or a dial ended, and the next dial comes after the wait. back: a server
// has answered a device that was lost. Times are of the machine's monotonic clock. The values of an update follow from
// its device and its base version in gradstream-load, whose lines have none.
#ifndef GRADSTREAM_BENCH_LINEAGE_H_
#define GRADSTREAM_BENCH_LINEAGE_H_

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace gradstream {

// One of the values that a device of gradstream-load uploads: small, and its own in each version.
inline float load_value(uint32_t device, uint32_t version, uint32_t entry) {
  uint32_t bits = device * 0x9e3779b9U ^ version * 0x85ebca6bU ^ entry * 0xc2b2ae35U;
  bits = (bits ^ (bits >> 15)) * 0x2c1b3c6dU;
  return 1e-6F * (static_cast<float>(bits >> 21) - 1024.0F);
}

struct LineageAck {
  uint32_t device = 0;  // enrolment index
  uint32_t task_sequence = 0;
  uint32_t base_version = 0;
  uint32_t version = 0;  // that the update went into; 0: none
  uint32_t verdict = 0;  // gs_Verdict
  bool is_duplicate = false;
  uint32_t steps = 0;
  uint32_t crc32c = 0;             // of the values as they were sent: f32, little-endian
  std::vector<float> values = {};  // of a client that trains; else load_value() tells them
};

// Of a line that ends with them. False: it is torn.
inline bool parse_values(const std::string& line, std::vector<float>* out) {
  constexpr std::string_view kName = " values=";
  const size_t at = line.find(kName);
  out->clear();
  if (at == std::string::npos) {
    return true;
  }
  const std::string digits = line.substr(at + kName.size());
  const size_t width = 2 * sizeof(float);
  for (size_t first = 0; first + width <= digits.size(); first += width) {
    uint8_t bytes[sizeof(float)];
    for (size_t i = 0; i < sizeof bytes; ++i) {
      const char* const begin = digits.data() + first + 2 * i;
      if (std::from_chars(begin, begin + 2, bytes[i], 16).ptr != begin + 2) {
        return false;
      }
    }
    std::memcpy(&out->emplace_back(), bytes, sizeof bytes);
  }
  return !out->empty() && digits.size() % width == 0;
}

// False: the line is another one than that of an Ack, or is torn.
inline bool parse_ack(const std::string& line, LineageAck* out) {
  unsigned device, task, base, version, verdict, duplicate, steps, crc;
  unsigned long long at_ms;
  const int count = std::sscanf(line.c_str(),
                                "event=ack device=%u task_sequence=%u base_version=%u version=%u verdict=%u "
                                "duplicate=%u steps=%u crc32c=%8x at_ms=%llu",
                                &device, &task, &base, &version, &verdict, &duplicate, &steps, &crc, &at_ms);
  if (count != 9 || duplicate > 1) {
    return false;
  }
  *out = {device, task, base, version, verdict, duplicate == 1, steps, crc};
  return parse_values(line, &out->values);
}

// The file that devices write down what they are told in. Each line is with the kernel before the device goes on, so
// that an end of the process loses none.
class LineageFile {
 public:
  LineageFile() = default;
  ~LineageFile() {
    if (file_ != nullptr) {
      (void)std::fclose(file_);
    }
  }
  LineageFile(const LineageFile&) = delete;
  LineageFile& operator=(const LineageFile&) = delete;

  // A new file. False: there cannot be one, and errno says why.
  bool open(const std::string& path) {
    file_ = std::fopen(path.c_str(), "we");
    return file_ != nullptr;
  }
  void add_ack(const LineageAck& ack, uint64_t at_ms) {
    (void)std::fprintf(file_,
                       "event=ack device=%u task_sequence=%u base_version=%u version=%u verdict=%u duplicate=%u "
                       "steps=%u crc32c=%08x at_ms=%llu\n",
                       ack.device, ack.task_sequence, ack.base_version, ack.version, ack.verdict,
                       ack.is_duplicate ? 1U : 0U, ack.steps, ack.crc32c, static_cast<unsigned long long>(at_ms));
    flush();
  }
  void add_lost(uint32_t device, uint64_t at_ms, uint64_t wait_ms) {
    (void)std::fprintf(file_, "event=lost device=%u at_ms=%llu wait_ms=%llu\n", device,
                       static_cast<unsigned long long>(at_ms), static_cast<unsigned long long>(wait_ms));
    flush();
  }
  void add_back(uint32_t device, uint64_t at_ms) {
    (void)std::fprintf(file_, "event=back device=%u at_ms=%llu\n", device, static_cast<unsigned long long>(at_ms));
    flush();
  }
  // A line could not be written: the record is not whole.
  bool is_broken() const { return is_broken_; }

 private:
  void flush() { is_broken_ = std::fflush(file_) != 0 || std::ferror(file_) != 0 || is_broken_; }

  std::FILE* file_ = nullptr;
  bool is_broken_ = false;
};

}  // namespace gradstream

#endif  // GRADSTREAM_BENCH_LINEAGE_H_
