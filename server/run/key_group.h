// A group of a run's keys as a member of RunParameters. It is a value: a copy has its own keys.
//
// The group's type may be incomplete here. A source that reads none of its keys does not include its header, and is
// not compiled anew when the group gets a key. Core is the base of Keys that most sources read, or Keys itself. A
// source that reads the core alone does not include the group's header either.
#ifndef GRADSTREAM_SERVER_RUN_KEY_GROUP_H_
#define GRADSTREAM_SERVER_RUN_KEY_GROUP_H_

#include <memory>

namespace gradstream {

template <typename Keys, typename Core = Keys>
class KeyGroup {
 public:
  // All keys at their defaults. These four are instantiated by run_parameters.cc for every group, and nowhere else.
  KeyGroup();
  KeyGroup(const KeyGroup& other);
  KeyGroup& operator=(const KeyGroup& other);
  ~KeyGroup();

  Core* operator->() { return core_; }
  const Core* operator->() const { return core_; }
  Core& operator*() { return *core_; }
  const Core& operator*() const { return *core_; }
  // All keys of the group.
  Keys& keys() { return *keys_; }
  const Keys& keys() const { return *keys_; }

 private:
  std::unique_ptr<Keys> keys_;  // never null
  Core* core_;                  // of *keys_: a base of an incomplete type cannot be asked for
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RUN_KEY_GROUP_H_
