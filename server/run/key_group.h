// A group of a run's keys as a member of RunParameters. It is a value: a copy has its own keys.
//
// The group's type may be incomplete here. A source that reads none of its keys does not include its header, and is
// not compiled anew when the group gets a key.
#ifndef GRADSTREAM_SERVER_RUN_KEY_GROUP_H_
#define GRADSTREAM_SERVER_RUN_KEY_GROUP_H_

#include <memory>

namespace gradstream {

template <typename Keys>
class KeyGroup {
 public:
  // All keys at their defaults. These four are instantiated by run_parameters.cc for every group, and nowhere else.
  KeyGroup();
  KeyGroup(const KeyGroup& other);
  KeyGroup& operator=(const KeyGroup& other);
  ~KeyGroup();

  Keys* operator->() { return keys_.get(); }
  const Keys* operator->() const { return keys_.get(); }
  Keys& operator*() { return *keys_; }
  const Keys& operator*() const { return *keys_; }

 private:
  std::unique_ptr<Keys> keys_;  // never null
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RUN_KEY_GROUP_H_
