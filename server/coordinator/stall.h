// Why a run stands still that no waiting can help: in words for the operator, and in the journal's record of the stall.
//
// A stall without a cause means that too few devices answered in time. One with a cause names devices that can give
// nothing to the open version as they are: they lack something, their data do not fit, or their updates are refused.
#ifndef GRADSTREAM_SERVER_COORDINATOR_STALL_H_
#define GRADSTREAM_SERVER_COORDINATOR_STALL_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace gradstream {

// Of one line each; all empty: there is no such cause.
struct StallCause {
  std::string cause;   // a word of a closed set: not_capable, or the name of a gs_Reason
  std::string text;    // a sentence with devices, value and limit
  std::string remedy;  // a sentence with the keys or the data to change
  bool empty() const { return cause.empty(); }
  friend bool operator==(const StallCause&, const StallCause&) = default;
};

// The payload of a record RunEvent::kStalled: the three lines; nothing for no cause. Older releases write none.
std::vector<uint8_t> encode_stall(const StallCause& cause);
// What is not of that form is no cause: the record counts without it.
StallCause decode_stall(std::span<const uint8_t> payload);

// 6 significant digits, as logs show numbers.
std::string number_text(double value);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_COORDINATOR_STALL_H_
