// Times, sizes and words of a shell, as sentences for people have them.
#ifndef GRADSTREAM_SERVER_WATCH_SENTENCE_WORDS_H_
#define GRADSTREAM_SERVER_WATCH_SENTENCE_WORDS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gradstream {

// "45 s", "3 min", "2 h", "4 days"; below 10 s with a digit behind the point. For people.
std::string duration_text(uint64_t time_ms);
// "120 MiB"; for people.
std::string size_text(uint64_t bytes);
// The word as a shell takes it: in quotes where it needs them.
std::string shell_word(const std::string& word);
// "gradstream device VERB NAME", for a shell.
std::string device_command(const char* verb, const std::string& name);
// With four digits at most.
std::string number_of(double value);
// "problem:logistic,manifold:sphere" as people say it.
std::string lacks_text(const std::string& lacks);
// What devices that lack it want. firmware: the release that they run; empty: it is not known.
std::string lacks_remedy(const std::string& lacks, const std::string& firmware);
// What connections want that were refused as this counter counts them, such as "wrong_keys".
std::string refusals_remedy(const std::string& counter);
// A clause as a sentence: its first letter large, a point at its end.
std::string sentence_of(std::string clause);
// A release such as "1.12.0" as numbers; none: it is no such text.
std::optional<std::vector<uint32_t>> release_of(const std::string& text);

// Names in a sentence; the others are counted. Reason: who repairs devices begins with a few, and a sentence stays one.
inline constexpr size_t kSentenceNamesMax = 3;
// Some devices by their names: the first kSentenceNamesMax, and how many there are.
class SentenceNames {
 public:
  void add(const std::string& name) {
    if (names_.size() < kSentenceNamesMax) {
      names_.push_back(name);
    }
    ++count_;
  }
  size_t count() const { return count_; }
  const std::string& first() const { return names_.front(); }
  // "a", "a and b", "a, b and c", "a, b, c and 4 others".
  std::string text() const {
    const size_t others = count_ - names_.size();
    std::string text;
    for (size_t i = 0; i < names_.size(); ++i) {
      const bool is_last = i + 1 == names_.size() && others == 0;
      text += (i == 0 ? "" : is_last ? " and " : ", ") + names_[i];
    }
    return others == 0 ? text : text + " and " + std::to_string(others) + (others == 1 ? " other" : " others");
  }
  // "pump-12", or "2 of 12 devices (a and b)".
  std::string of(size_t all) const {
    return count_ == 1 ? names_.front()
                       : std::to_string(count_) + " of " + std::to_string(all) + " devices (" + text() + ")";
  }
  // "it" or "them", "has" or "have".
  const char* which(const char* one, const char* several) const { return count_ == 1 ? one : several; }

 private:
  std::vector<std::string> names_;
  size_t count_ = 0;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_WATCH_SENTENCE_WORDS_H_
