// A text spoilt at random as an editor, a disk or a transfer spoils one, the same for the same seed on every machine.
#ifndef GRADSTREAM_TESTS_SUPPORT_TEXT_EDITS_H_
#define GRADSTREAM_TESTS_SUPPORT_TEXT_EDITS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>

namespace gradstream {

class TextEdits {
 public:
  explicit TextEdits(uint64_t seed) : state_(seed) {}

  // One to four edits: a byte put in, changed, removed or doubled, a piece repeated or cut off, a mark of TOML put in.
  std::string spoil(std::string text) {
    for (uint32_t left = 1 + below(4); left > 0; --left) {
      spoil_once(&text);
    }
    return text;
  }
  // 0 .. count - 1.
  uint32_t below(size_t count) { return static_cast<uint32_t>((next() >> 16) % count); }

 private:
  // SplitMix64, by Steele, Lea and Flood.
  uint64_t next() {
    state_ += 0x9e3779b97f4a7c15U;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }

  void spoil_once(std::string* text) {
    static constexpr const char* kMarks[] = {"[",        "]",        "[[",          "]]",
                                             "{",        "}",        "\"",          "'",
                                             "\"\"\"",   "'''",      ".",           "=",
                                             ",",        "#",        "\n",          "\r",
                                             "\t",       "\\",       "_",           "-",
                                             "+",        "0x",       "1e",          "inf",
                                             "nan",      "true",     "@",           "\xc2",
                                             "\xe4",     "\xff",     "\x7f",        "\xe2\x80\xa8",
                                             "\xc2\xa0", "\xc3\xa4", "2020-01-01",  "2020-01-01 1",
                                             "12:00:00", "[a.",      "\n[server]\n"};
    const size_t place = below(text->size() + 1);
    const size_t size = std::min<size_t>(1 + below(12), text->size() - place);
    switch (below(6)) {
      case 0:
        text->insert(place, 1, static_cast<char>(below(256)));
        break;
      case 1:
        text->insert(place, kMarks[below(std::size(kMarks))]);
        break;
      case 2:
        text->erase(place, size);
        break;
      case 3:
        text->insert(place, text->substr(place, size));
        break;
      case 4:
        if (place < text->size()) {
          (*text)[place] = static_cast<char>(below(256));
        }
        break;
      default:
        if (below(8) == 0) {
          text->resize(place);
        } else {
          text->insert(below(text->size() + 1), text->substr(place, size));
        }
    }
  }

  uint64_t state_;
};

}  // namespace gradstream

#endif  // GRADSTREAM_TESTS_SUPPORT_TEXT_EDITS_H_
