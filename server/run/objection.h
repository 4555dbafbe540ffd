// What a check says: nothing, or why a run cannot be as it is written.
#ifndef GRADSTREAM_SERVER_RUN_OBJECTION_H_
#define GRADSTREAM_SERVER_RUN_OBJECTION_H_

#include <string>
#include <utility>

namespace gradstream {

// Nobody may drop one unread.
struct [[nodiscard]] Objection {
  Objection() = default;
  // A check returns its sentence; an empty one is no objection.
  Objection(std::string text) : sentence(std::move(text)) {}
  Objection(const char* text) : sentence(text) {}

  friend bool operator==(const Objection&, const Objection&) = default;
  // Whether there is one.
  explicit operator bool() const { return !sentence.empty(); }

  std::string sentence;  // begins with the keys that disagree and ends with the remedy
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RUN_OBJECTION_H_
