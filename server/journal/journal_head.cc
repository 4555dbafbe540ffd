#include "server/journal/journal_head.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <span>

namespace gradstream {

namespace {

constexpr std::string_view kForm = "gradstream_head=1";
constexpr std::string_view kSignature = " signature=";
constexpr std::string_view kDigits = "0123456789abcdef";

std::string hex_of(std::span<const uint8_t> bytes) {
  std::string text;
  for (const uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::string hex_of(uint64_t number) {
  std::array<uint8_t, 8> bytes = {};
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<uint8_t>(number >> (8 * (bytes.size() - 1 - i)));
  }
  return hex_of(bytes);
}

bool parse_hex(std::string_view text, std::span<uint8_t> out) {
  if (text.size() != 2 * out.size() || text.find_first_not_of(kDigits) != std::string_view::npos) {
    return false;
  }
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<uint8_t>(kDigits.find(text[2 * i]) << 4 | kDigits.find(text[2 * i + 1]));
  }
  return true;
}

// Cuts off " KEY=VALUE", one after the other.
class Words {
 public:
  explicit Words(std::string_view text) : rest_(text) {}
  template <typename Number>
  void number(std::string_view key, int base, Number* out) {
    const std::string_view value = next(key);
    const auto [end, code] = std::from_chars(value.data(), value.data() + value.size(), *out, base);
    is_sound_ = is_sound_ && code == decltype(code)() && end == value.data() + value.size();
  }
  void bytes(std::string_view key, std::span<uint8_t> out) {
    const std::string_view value = next(key);
    is_sound_ = is_sound_ && parse_hex(value, out);
  }
  bool is_sound() const { return is_sound_ && rest_.empty(); }

 private:
  std::string_view next(std::string_view key) {
    const std::string begin = " " + std::string(key) + "=";
    is_sound_ = is_sound_ && rest_.starts_with(begin);
    if (!is_sound_) {
      return {};
    }
    rest_.remove_prefix(begin.size());
    const std::string_view value = rest_.substr(0, rest_.find(' '));
    rest_.remove_prefix(value.size());
    return value;
  }

  std::string_view rest_;
  bool is_sound_ = true;
};

}  // namespace

std::string head_text(const JournalHead& head) {
  return std::string(kForm) + " run=" + std::to_string(head.run) + " run_nonce=" + hex_of(head.run_nonce) +
         " sequence=" + std::to_string(head.record.sequence) + " chain=" + hex_of(head.record.chain) +
         " version=" + std::to_string(head.version) + " digest=" + hex_of(head.digest) +
         " time_ms=" + std::to_string(head.time_ms);
}

std::string signed_head_text(const JournalHead& head, const std::vector<uint8_t>& signature) {
  return head_text(head) + std::string(kSignature) + hex_of(signature);
}

bool parse_head(std::string_view line, SignedHead* out) {
  *out = {};
  const size_t end = std::min(line.find(kSignature), line.size());
  const std::string_view text = line.substr(0, end);
  if (!text.starts_with(kForm)) {
    return false;
  }
  JournalHead& head = out->head;
  Words words(text.substr(kForm.size()));
  words.number("run", 10, &head.run);
  words.number("run_nonce", 16, &head.run_nonce);
  words.number("sequence", 10, &head.record.sequence);
  words.bytes("chain", head.record.chain);
  words.number("version", 10, &head.version);
  words.number("digest", 16, &head.digest);
  words.number("time_ms", 10, &head.time_ms);
  if (!words.is_sound() || head_text(head) != text) {
    return false;
  }
  out->text = text;
  if (end == line.size()) {
    return true;
  }
  const std::string_view digits = line.substr(end + kSignature.size());
  out->signature.resize(std::min(digits.size() / 2, kHeadSignatureSizeMax));
  return !out->signature.empty() && parse_hex(digits, out->signature);
}

JournalMark mark_of(const ChainHead& head) {
  JournalMark mark = {head.sequence, 0};
  for (size_t i = 0; i < sizeof mark.chain; ++i) {
    mark.chain |= uint64_t{head.chain[i]} << (8 * i);
  }
  return mark;
}

MarkFinding find_mark(Store& journal, const JournalMark& mark) {
  ChainHead end;
  ChainHead there;
  if (journal.read_chain_end(&end) != StoreStatus::kOk) {
    return MarkFinding::kUnknown;
  }
  if (mark.sequence > end.sequence) {
    return MarkFinding::kMissing;
  }
  if (journal.read_chain(mark.sequence, &there) != StoreStatus::kOk) {
    return MarkFinding::kUnknown;
  }
  return mark_of(there) == mark ? MarkFinding::kSame : MarkFinding::kOther;
}

}  // namespace gradstream
