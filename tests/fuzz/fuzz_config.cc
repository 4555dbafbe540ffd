// Text that people write -> a tree of TOML -> a configuration. The first byte chooses where the rest stands: in the
// file, in a variable or behind --set. Whatever it is, there is a configuration or an error of whole lines; and a
// configuration that was taken is printed as text that reads back to the same.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "server/program/config.h"
#include "server/program/toml_document.h"
#include "server/run/advice.h"
#include "server/run/check_parameters.h"
#include "tests/fuzz/fuzz_input.h"

namespace gradstream::testing {
namespace {

constexpr const char* kGood = "[run]\nname = \"t\"\nrows = 8\ncols = 2\nproblem = \"kpca\"\ndevice_count = 2\n";

// Tables inside each other, at most: a header, and below it a key at every level of values.
constexpr uint32_t kLevelsMax = kTomlKeyPartsMax * (kTomlDepthMax + 2);

void check_tree(const TomlNode& node, uint32_t line_max, uint32_t levels_left) {
  FUZZ_CHECK(levels_left > 0);
  FUZZ_CHECK(node.line <= line_max);
  for (const TomlEntry& entry : node.entries) {
    FUZZ_CHECK(is_utf8(entry.name) && entry.name.size() <= kTomlNameSizeMax);
    FUZZ_CHECK(node.find(entry.name) == &entry.value);
    check_tree(entry.value, line_max, levels_left - 1);
  }
  for (const TomlNode& item : node.items) {
    check_tree(item, line_max, levels_left - 1);
  }
  FUZZ_CHECK(is_utf8(node.text));
}

void check_document(std::string_view text) {
  TomlNode root;
  uint32_t line = 0;
  const std::string error = parse_toml(text, &root, &line).sentence;
  const auto line_max = 1 + static_cast<uint32_t>(std::count(text.begin(), text.end(), '\n'));
  FUZZ_CHECK(line >= 1 && line <= line_max);
  FUZZ_CHECK(printable(error) == error);
  FUZZ_CHECK(error.empty() || root.entries.empty());
  check_tree(root, line_max, kLevelsMax);
}

void check_config(const std::string& text, const ConfigSources& sources) {
  Config config;
  const std::string errors = load_config_text(text, sources, &config).sentence;
  FUZZ_CHECK(errors.empty() || errors.back() == '\n');
  FUZZ_CHECK(errors.find('\0') == std::string::npos);
  if (errors.empty()) {
    const std::string printed = config_text(config);
    Config again;
    FUZZ_CHECK(load_config_text(printed, {"again", {}, {}}, &again).sentence.empty());
    FUZZ_CHECK(config_text(again) == printed);
    if (config.has_run && !check_new_run(config.run)) {
      advice(config.run);
    }
  }
}

void run(uint8_t place, const std::string& text) {
  switch (place % 4) {
    case 0:
      check_config(kGood, {"file", {}, {text}});
      break;
    case 1:
      check_config(kGood, {"file", {text}, {}});
      break;
    default:
      check_document(text);
      check_config(text, {"file", {}, {}});
  }
}

}  // namespace
}  // namespace gradstream::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size >= 1) {
    gradstream::testing::run(data[0], {reinterpret_cast<const char*>(data) + 1, size - 1});
  }
  return 0;
}
