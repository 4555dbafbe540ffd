// What a call says that may refuse: nothing, or why it does.
//
//   if (const Objection objection = check(...)) { tell(objection.sentence); }
#ifndef GRADSTREAM_SERVER_BASE_OBJECTION_H_
#define GRADSTREAM_SERVER_BASE_OBJECTION_H_

#include <string>
#include <utility>

namespace gradstream {

// Nobody may drop one unread. Where a call gives a clause or several lines in place of a sentence, its header says so.
struct [[nodiscard]] Objection {
  Objection() = default;
  // A check returns its sentence; an empty one is no objection.
  Objection(std::string text) : sentence(std::move(text)) {}
  Objection(const char* text) : sentence(text) {}

  friend bool operator==(const Objection&, const Objection&) = default;
  // Whether there is one.
  explicit operator bool() const { return !sentence.empty(); }

  std::string sentence;  // begins with what is wrong, such as keys that disagree, and ends with the remedy
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_BASE_OBJECTION_H_
