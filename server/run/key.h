// What is said of a key of a run. Each group of keys (model_keys.h and its neighbours) says it in its visit(): the
// tables of docs/reference/keys.md and `gradstream run keys` follow from there. The checks of a group stand in its
// source; visit_keys_test holds them to the ranges that are said here.
#ifndef GRADSTREAM_SERVER_RUN_KEY_H_
#define GRADSTREAM_SERVER_RUN_KEY_H_

#include <limits>

namespace gradstream {

// The numbers that a key takes; of a text, how many characters it has.
struct Range {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool is_above = false;   // `least` itself is not taken
  bool is_below = false;   // `most` itself is not taken
  const char* where = "";  // the runs that check it, such as "scheme_1"; "": all

  constexpr Range only(const char* which) const { return {least, most, is_above, is_below, which}; }
  constexpr bool has(double value) const {
    return (is_above ? value > least : value >= least) && (is_below ? value < most : value <= most);
  }
};

constexpr Range from(double least, double most = std::numeric_limits<double>::infinity()) { return {least, most}; }
constexpr Range above(double least, double most = std::numeric_limits<double>::infinity()) {
  return {least, most, true};
}
constexpr Range from_below(double least, double most) { return {least, most, false, true}; }

struct Key {
  const char* name = nullptr;  // in the configuration, in the canonical text and in the database: never renamed
  const char* unit = "";       // "": a word, a text or a number without one
  Range range;                 // of numbers and texts; words have their table in server/run/names.h
  const char* sentence = "";   // Markdown, without a line break or '|'
  // Of a number whose range is above 0: the word that people write and read where the field holds 0; "": 0 is refused.
  const char* zero_word = "";

  constexpr bool has_zero_word() const { return zero_word[0] != '\0'; }
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RUN_KEY_H_
