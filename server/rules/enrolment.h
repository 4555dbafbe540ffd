// The fleet as an aggregation rule sees it.
#ifndef GRADSTREAM_SERVER_RULES_ENROLMENT_H_
#define GRADSTREAM_SERVER_RULES_ENROLMENT_H_

#include <cstdint>

namespace gradstream {

// Which devices take part when a version closes. The coordinator's Fleet implements it.
class Enrolment {
 public:
  virtual ~Enrolment() = default;
  // Devices that are enrolled and not revoked.
  virtual uint32_t active_count() const = 0;
  // Whether the device of this enrolment index was revoked. The index is below the count of enrolled devices.
  virtual bool has_left(uint32_t device) const = 0;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RULES_ENROLMENT_H_
