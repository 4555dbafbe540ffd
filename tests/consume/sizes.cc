// Sizes that the flags of a build decide, as sizes of symbols: compiled as a file of the library and as one of a user.
#include <gradstream/manifold.h>
#include <gradstream/problem.h>

#include "firmware/device.h"
#include "firmware/device_parts.h"

extern "C" {
char device_shell[sizeof(gradstream::DeviceShell)];
char device_object[sizeof(gs_device)];
char device_config[sizeof(gradstream::DeviceConfig)];
char linked_problem[sizeof(gs_linked_problem)];
}
