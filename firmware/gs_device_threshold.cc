// gs_threshold() of a device behind an object. A file of its own, so that an image pays for what it calls.
#include "firmware/device_parts.h"

gs_result gs_device_threshold(gs_device* device, float* out) {
  const gradstream::DeviceScope scope(*device);
  return gs_threshold(out);
}
