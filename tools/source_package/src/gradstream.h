/* All of the interface in C, by the one name that Arduino looks for. */
#ifndef GRADSTREAM_H_
#define GRADSTREAM_H_

#include <gradstream/device.h>
#include <gradstream/port.h>

#endif /* GRADSTREAM_H_ */
