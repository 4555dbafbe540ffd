// What advisories of nanopb need is not in our messages: callbacks (in a oneof above all), pointers, and messages that
// nest without an end. The descriptors are those that the codec decodes by.
#include <algorithm>
#include <fstream>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <pb_common.h>

#include "proto/gradstream.pb.h"

#ifdef PB_ENABLE_MALLOC
#error "nanopb would take memory from a heap"
#endif

namespace gradstream {
namespace {

// Levels of messages in messages. Reason for the limit: each is a frame of nanopb's decoder on a board's stack.
constexpr size_t kNestingMax = 4;

class Walk {
 public:
  void visit(const pb_msgdesc_t* message) {
    ASSERT_EQ(std::count(path_.begin(), path_.end(), message), 0) << "a message holds itself";
    seen_.insert(message);
    path_.push_back(message);
    EXPECT_LE(path_.size(), kNestingMax);
    EXPECT_EQ(message->field_callback, nullptr);
    pb_field_iter_t field = {};
    std::vector<uint8_t> no_message(1);  // never looked into: the iterator only adds to its address
    if (pb_field_iter_begin(&field, message, no_message.data())) {
      do {
        EXPECT_EQ(PB_ATYPE(field.type), PB_ATYPE_STATIC) << "field " << field.tag;
        EXPECT_NE(PB_LTYPE(field.type), PB_LTYPE_SUBMSG_W_CB) << "field " << field.tag;
        EXPECT_NE(PB_LTYPE(field.type), PB_LTYPE_EXTENSION) << "field " << field.tag;
        if (PB_LTYPE_IS_SUBMSG(field.type)) {
          visit(field.submsg_desc);
        }
      } while (pb_field_iter_next(&field));
    }
    path_.pop_back();
  }
  size_t count() const { return seen_.size(); }

 private:
  std::vector<const pb_msgdesc_t*> path_;
  std::set<const pb_msgdesc_t*> seen_;
};

TEST(GeneratedMessages, EveryFieldHasItsBytesInItsMessage) {
  Walk walk;
  for (const pb_msgdesc_t* message : {&gs_DeviceMessage_msg, &gs_ServerMessage_msg, &gs_ClaimRequest_msg,
                                      &gs_ClaimAnswer_msg, &gs_DeviceKeyMessage_msg, &gs_ServerKeyMessage_msg}) {
    walk.visit(message);
  }
  std::ifstream file(GS_SOURCE_DIR "/proto/gradstream.proto");
  size_t declared = 0;
  for (std::string line; std::getline(file, line);) {
    declared += std::regex_search(line, std::regex("^ *message ")) ? 1 : 0;
  }
  EXPECT_EQ(walk.count(), declared) << "a message that neither end decodes, or a further one to begin the walk at";
}

}  // namespace
}  // namespace gradstream
