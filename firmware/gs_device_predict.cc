// gs_predict() of a device behind an object. A file of its own, so that an image pays for what it calls.
#include "firmware/device_parts.h"

gs_result gs_device_predict(gs_device* device, const float* sample, float* out) {
  const gradstream::DeviceScope scope(*device);
  return gs_predict(sample, out);
}
