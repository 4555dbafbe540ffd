#include "server/run/canonical_text.h"

#include <algorithm>
#include <map>
#include <string>

#include "server/run/field_text.h"
#include "server/run/visit_keys.h"

namespace gradstream {
namespace {

std::map<std::string, std::string> parse_lines(const std::string& text) {
  std::map<std::string, std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    const size_t equals = line.find(" = ");
    if (equals != std::string::npos) {
      lines[line.substr(0, equals)] = line.substr(equals + 3);
    }
    begin = end + 1;
  }
  return lines;
}

}  // namespace

std::string canonical_text(const RunParameters& parameters) {
  std::string text;
  visit_keys(parameters, [&text](const Key& key, const auto& field) {
    text += std::string(key.name) + " = " + key_text(key, field) + "\n";
  });
  return text;
}

uint64_t parameters_digest(const RunParameters& parameters, uint64_t run_nonce) {
  const std::map<std::string, std::string> defaults = parse_lines(canonical_text(RunParameters()));
  uint64_t digest = kDigestStart;
  visit_keys(parameters, [&](const Key& key, const auto& field) {
    const std::string value = key_text(key, field);
    if (defaults.at(key.name) == value) {
      return;
    }
    for (const char c : std::string(key.name) + " = " + value + "\n") {
      digest = digest_byte(digest, static_cast<uint8_t>(c));
    }
  });
  for (size_t i = 0; run_nonce != 0 && i < sizeof run_nonce; ++i) {
    digest = digest_byte(digest, static_cast<uint8_t>(run_nonce >> (8 * i)));
  }
  return digest;
}

std::vector<std::string> differing_keys(const std::string& a, const std::string& b) {
  const std::map<std::string, std::string> defaults = parse_lines(canonical_text(RunParameters()));
  std::map<std::string, std::string> lines_a = parse_lines(a);
  std::map<std::string, std::string> lines_b = parse_lines(b);
  lines_a.insert(defaults.begin(), defaults.end());
  lines_b.insert(defaults.begin(), defaults.end());
  std::vector<std::string> keys;
  for (const auto& [key, value] : lines_a) {
    const auto other = lines_b.find(key);
    if (other == lines_b.end() || other->second != value) {
      keys.push_back(key);
    }
  }
  for (const auto& [key, value] : lines_b) {
    if (!lines_a.contains(key)) {
      keys.push_back(key);
    }
  }
  std::sort(keys.begin(), keys.end());
  return keys;
}

}  // namespace gradstream
