#include "host/npy.h"

#include <charconv>

#include "runtime/base/text.h"

namespace gradstream {
namespace {

// The header is a dictionary as Python writes it, of three entries.
class HeaderReader {
 public:
  explicit HeaderReader(std::string_view text) : rest_(text) {}

  bool read(NpyHeader* out) {
    bool good = take('{');
    int found = 0;
    while (good && !take('}')) {
      std::string key;
      good = take_string(&key) && take(':');
      if (good && key == "descr") {
        good = take_descr(&out->descr);
        found |= 1;
      } else if (good && key == "fortran_order") {
        good = take_bool(&out->is_fortran);
        found |= 2;
      } else {
        good = good && key == "shape" && take_shape(&out->shape);
        found |= 4;
      }
      take(',');
    }
    skip();
    return good && found == 7 && rest_.empty();
  }

 private:
  void skip() {
    while (!rest_.empty() && (is_blank(rest_.front()) || rest_.front() == '\n')) {
      rest_.remove_prefix(1);
    }
  }
  bool take(char wanted) {
    skip();
    const bool is_there = !rest_.empty() && rest_.front() == wanted;
    rest_.remove_prefix(is_there ? 1 : 0);
    return is_there;
  }
  bool take_string(std::string* out) {
    skip();
    if (rest_.empty() || (rest_.front() != '\'' && rest_.front() != '"')) {
      return false;
    }
    const size_t end = rest_.find(rest_.front(), 1);
    if (end == std::string_view::npos) {
      return false;
    }
    *out = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return true;
  }
  // Records are a list; what it holds is not looked at.
  bool take_descr(std::string* out) {
    if (!take('[')) {
      return take_string(out);
    }
    const size_t end = rest_.find(']');
    rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
    *out = "a record";
    return end != std::string_view::npos;
  }
  bool take_bool(bool* out) {
    skip();
    *out = rest_.starts_with("True");
    const size_t size = *out ? 4 : 5;
    const bool is_good = *out || rest_.starts_with("False");
    rest_.remove_prefix(is_good ? size : 0);
    return is_good;
  }
  bool take_shape(std::vector<uint64_t>* out) {
    out->clear();
    if (!take('(')) {
      return false;
    }
    while (!take(')')) {
      skip();
      uint64_t value = 0;
      const auto [stop, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
      if (error != std::errc()) {
        return false;
      }
      rest_.remove_prefix(static_cast<size_t>(stop - rest_.data()));
      take('L');  // as Python 2 wrote them
      out->push_back(value);
      if (!take(',') && (rest_.empty() || rest_.front() != ')')) {
        return false;
      }
    }
    return true;
  }

  std::string_view rest_;
};

}  // namespace

uint64_t load_little(std::string_view bytes, size_t at, size_t size) {
  uint64_t value = 0;
  for (size_t i = size; i > 0; --i) {
    value = value << 8 | static_cast<uint8_t>(bytes[at + i - 1]);
  }
  return value;
}

std::string read_npy_header(std::string_view bytes, const char* save_again, NpyHeader* out) {
  constexpr size_t kFixedSize = 8;  // magic and version
  constexpr const char* kTruncated = "is a truncated .npy: it ends within its header; copy it again";
  if (bytes.size() < kFixedSize) {
    return kTruncated;
  }
  const int major = static_cast<uint8_t>(bytes[6]);
  if (major < 1 || major > 3) {
    return "is a .npy of format " + std::to_string(major) + "." + std::to_string(static_cast<uint8_t>(bytes[7])) +
           ", and 1.0, 2.0 and 3.0 are read" + save_again;
  }
  const size_t size_size = major == 1 ? 2 : 4;
  if (bytes.size() < kFixedSize + size_size) {
    return kTruncated;
  }
  const uint64_t header_size = load_little(bytes, kFixedSize, size_size);
  const size_t header_at = kFixedSize + size_size;
  if (header_size > bytes.size() - header_at) {
    return kTruncated;
  }
  out->values_at = header_at + static_cast<size_t>(header_size);
  HeaderReader header(bytes.substr(header_at, static_cast<size_t>(header_size)));
  return header.read(out) ? std::string() : std::string("is a .npy with a header that does not parse") + save_again;
}

std::string npy_shape_text(const std::vector<uint64_t>& shape) {
  std::string text;
  for (const uint64_t size : shape) {
    text += (text.empty() ? "" : ", ") + std::to_string(size);
  }
  return "(" + text + (shape.size() == 1 ? ",)" : ")");
}

}  // namespace gradstream
