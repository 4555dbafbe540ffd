#include "server/watch/sentence_words.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <string_view>
#include <system_error>

#include "server/base/refusal_catalogue.h"

namespace gradstream {

std::string duration_text(uint64_t time_ms) {
  constexpr uint64_t kMinuteMs = 60'000;
  constexpr uint64_t kHourMs = 60 * kMinuteMs;
  constexpr uint64_t kDayMs = 24 * kHourMs;
  const auto whole = [](uint64_t count, const char* unit) { return std::to_string(count) + " " + unit; };
  if (time_ms < 10'000) {
    const uint64_t tenths = (time_ms + 50) / 100;
    return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
  }
  if (time_ms < 2 * kMinuteMs) {
    return whole((time_ms + 500) / 1000, "s");
  }
  if (time_ms < 2 * kHourMs) {
    return whole(time_ms / kMinuteMs, "min");
  }
  return time_ms < 2 * kDayMs ? whole(time_ms / kHourMs, "h") : whole(time_ms / kDayMs, "days");
}

std::string size_text(uint64_t bytes) {
  constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  std::array<char, 32> text = {};
  const bool is_small = unit > 0 && value < 10;
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed, is_small ? 1 : 0).ptr;
  return std::string(text.data(), end) + " " + kUnits[unit];
}

std::string shell_word(const std::string& word) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("._-+:@%/,").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), is_plain)) {
    return word;
  }
  std::string quoted = "'";
  for (const char c : word) {
    quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return quoted + "'";
}

std::string device_command(const char* verb, const std::string& name) {
  return std::string("gradstream device ") + verb + " " + (name.starts_with('-') ? "-- " : "") + shell_word(name);
}

std::string number_of(double value) {
  std::array<char, 32> text = {};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::general, 4).ptr;
  return {text.data(), end};
}

std::string lacks_text(const std::string& lacks) {
  std::string text;
  for (size_t at = 0; at < lacks.size();) {
    const size_t end = std::min(lacks.find(',', at), lacks.size());
    const std::string one = lacks.substr(at, end - at);
    const size_t colon = std::min(one.find(':'), one.size());
    const std::string kind = one.substr(0, colon);
    const std::string what = colon < one.size() ? one.substr(colon + 1) : "";
    text += text.empty() ? "" : " and ";
    if (kind == "samples") {
      text.append(what).append(" samples");
    } else if (kind == "network") {
      text.append("the run's network ").append(what);
    } else {
      text.append("the ").append(kind).append(" ").append(what);
    }
    at = end + 1;
  }
  return text;
}

std::optional<std::vector<uint32_t>> release_of(const std::string& text) {
  std::vector<uint32_t> parts;
  const char* at = text.data();
  const char* const end = text.data() + text.size();
  while (at != end) {
    uint32_t part = 0;
    const auto read = std::from_chars(at, end, part);
    if (read.ec != std::errc() || (read.ptr != end && *read.ptr != '.') || read.ptr + 1 == end) {
      return std::nullopt;
    }
    parts.push_back(part);
    at = read.ptr == end ? end : read.ptr + 1;
  }
  return parts.empty() ? std::nullopt : std::optional(parts);
}

std::string lacks_remedy(const std::string& lacks, const std::string& firmware) {
  const size_t at = lacks.find("problem:");
  if (at != std::string::npos) {
    const std::string problem = lacks.substr(at + 8, lacks.find(',', at) - at - 8);
    return "Flash an image that links the problem " + problem + "; they run firmware " +
           (firmware.empty() ? "of no known version" : firmware) +
           ". A Linux client whose samples fit it does it with --problem " + problem + " or --problem any.";
  }
  if (lacks.starts_with("network:")) {
    return "Give the devices the file that run.network names, or begin a run with their network.";
  }
  if (lacks.starts_with("samples:")) {
    return "Wait until they hold as many samples, or begin a run with a smaller samples_min.";
  }
  return "Flash an image that has it; they run firmware " + (firmware.empty() ? "of no known version" : firmware) +
         ". Or begin a run that they can do.";
}

std::string refusals_remedy(const std::string& counter) {
  const RefusalRow* const row = find_refusal(RefusalKind::kPeer, counter);
  return sentence_of(row == nullptr ? "look at the server's log, which names the peers and the cause" : row->remedy);
}

std::string sentence_of(std::string clause) {
  if (!clause.empty() && clause[0] >= 'a' && clause[0] <= 'z') {
    clause[0] = static_cast<char>(clause[0] - 'a' + 'A');
  }
  return clause.empty() || clause.ends_with('.') ? clause : clause + ".";
}

}  // namespace gradstream
