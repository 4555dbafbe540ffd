// What is wrong with a network's file, in words for people. Boards say less and do not link it.
#ifndef GRADSTREAM_RUNTIME_PROBLEM_GSN_TEXT_H_
#define GRADSTREAM_RUNTIME_PROBLEM_GSN_TEXT_H_

#include <cstddef>
#include <cstdint>

#include "runtime/problem/gsn.h"

namespace gradstream {

class GsnFaultText {
 public:
  // Reason: the longest sentence has 170 characters, and its numbers 40.
  static constexpr size_t kSizeMax = 255;

  // A clause that follows the file's name: the layer (from 0, as add_from counts) and the byte, then the value, the
  // limit and the remedy. Empty without a fault.
  explicit GsnFaultText(const GsnFault& fault);
  const char* c_str() const { return text_; }

 private:
  void add(char character);
  void add(const char* text);
  void add_number(uint32_t value);
  void add_hex(uint32_t value);
  void add_sentence(const char* form, const GsnFault& fault);

  char text_[kSizeMax + 1] = {};
  size_t size_ = 0;
};

// Words for the tables of `gradstream network show`. Static; "unknown" for no known value.
const char* layer_kind_name(LayerKind kind);
const char* activation_name(Activation activation);
const char* network_loss_name(NetworkLoss loss);

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_PROBLEM_GSN_TEXT_H_
