// Names and identities of a Linux client, in words that people can act on.
#ifndef GRADSTREAM_FIRMWARE_NAME_POSIX_H_
#define GRADSTREAM_FIRMWARE_NAME_POSIX_H_

#include <cstdint>
#include <span>
#include <string>

namespace gradstream {

// The name that a device is to claim, of what stands behind --name. {hostname} stands for the machine's host name;
// {machine-id} for 32 hexadecimal digits that tell this machine from others and do not give away /etc/machine-id, which
// machine-id(5) asks to keep off the network. They are those of `systemd-id128 machine-id --app-specific=...` with the
// application kMachineIdApplication. Empty and *out set, or what is wrong with the remedy.
std::string expand_name(const std::string& text, std::string* out);

inline constexpr char kMachineIdApplication[] = "5f0f2a9e83b94a4c9d0c6b1d7e2f4a61";

// 32 hexadecimal digits of the text of a machine-id file: *out, for the application. False: it holds no such id.
bool derive_machine_id(const std::string& machine_id, std::string* out);

// The log line of a client that ends for this reason. What is not printable ASCII, as in a name that somebody gave,
// stands there as \xNN: it reaches no terminal.
std::string failed_line(const std::string& reason);

// Of an identity's text that parse_identity() has refused at `line`: " line 2: key: expected ..." or " is empty".
std::string identity_fault_text(std::span<const char> text, uint32_t line);

// The model that the machine's device tree names, such as a Raspberry Pi's; else the processor.
std::string board_name();

}  // namespace gradstream

#endif  // GRADSTREAM_FIRMWARE_NAME_POSIX_H_
