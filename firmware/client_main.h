// The client's main loop, one for all boards: starts the device through the C interface and runs it.
#ifndef GRADSTREAM_FIRMWARE_CLIENT_MAIN_H_
#define GRADSTREAM_FIRMWARE_CLIENT_MAIN_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "include/gradstream/device.h"

namespace gradstream {

struct ConsolePort;    // firmware/console.h
class Credentials;     // runtime/link/certificate.h
class KeyHolder;       // firmware/key_change.h
struct JudgedUpdates;  // runtime/link/client.h

// Floors under nothing, as no_floors() of runtime/link/privacy.h: for demos, experiments and tests.
gs_privacy no_privacy();

struct ClientMainOptions {
  const char* board = "";  // what the image is for, as the server shows it
  std::span<const char> identity_text;
  std::span<const uint8_t> shard;
  const char* shard_name = nullptr;  // its file, for error lines; null: the board has but one
  // For images whose samples or problem are others: samples take the place of the shard, the problem that of "kpca".
  const gs_sample_source* samples = nullptr;
  const gs_linked_problem* problem = nullptr;
  std::span<uint8_t> arena;
  const char* arena_remedy = "enlarge it in the board's board_config.h";  // for error lines
  std::span<uint8_t> tls_pool;                                            // empty on a host
  bool has_storage = false;                                               // the port keeps state
  std::span<uint8_t> restore_buffer;  // for what it has kept; empty: the TLS pool serves
  gs_key_exchange key_exchange = GS_PSK_DHE_KE;
#if !defined(GS_BARE_METAL)
  // In place of the identity's key, which then only tells whose state is stored (identity_digest()).
  const Credentials* credentials = nullptr;
  const char* server_name = nullptr;
  KeyHolder* keys = nullptr;              // of the identity; null: its key never changes
  float threshold_quantile = 0;           // as gs_config has it
  gs_power power = GS_POWER_BOARD;        // as well; a board's image does as its board says
  const JudgedUpdates* judged = nullptr;  // who is told of them; null: nobody
#endif
  uint32_t run = 0;
  uint32_t retry_ms = 0;
  uint32_t step_delay_ms = 0;
  bool refuses_sums = false;
  gs_privacy privacy = {};
  bool until_finished = false;     // return when the run is finished and the last version is held
  bool exits_on_bad_data = false;  // return kExitData for data that the run's problem never takes; else wait
  // What is wrong with the data whatever the run; null: nothing is known. The server is told where it can be reached,
  // so that its operator knows as well; then this is the reason of kExitData.
  const char* data_fault = nullptr;
  bool once = false;  // return after one upload was answered, or as soon as none will be
  // Bytes of stack ever used; null: not measured.
  size_t (*stack_high_water_size)() = nullptr;
  // Called once in every turn of the loop, for a watchdog; null: there is none.
  void (*feed_watchdog)() = nullptr;
#if !defined(GS_BARE_METAL)
  // Whether the process is to end. client_main() then returns kExitOk, after the save that is under way. Null: never.
  bool (*is_end_wanted)() = nullptr;
#endif
  const ConsolePort* console = nullptr;  // for the operator's shell; null: there is none
  uint32_t reset_cause = 1;              // as the wire's ResetCause; 1: power came
};

// What client_main returns, and the exit status of a process.
enum ExitCode : int {
  kExitOk = 0,          // the run is finished; with `once`: the upload was answered
  kExitUsage = 2,       // the command line (processes only)
  kExitIdentity = 3,    // no identity, or one that does not parse
  kExitData = 4,        // no shard, none that parses, or a sample that the run's problem never takes
  kExitNoEntropy = 5,   // no random numbers, so no TLS
  kExitMemory = 6,      // the memory given is too small to start
  kExitSession = 7,     // with `once`: the session failed
  kExitArithmetic = 8,  // the processor flushes subnormal numbers to zero, or the build fuses: its replica would drift
  kExitNoTask = 9,      // with `once`: the run is over, or this image cannot do it; --score: there is no model
  kExitTemporary = 10,  // a file or folder cannot be used now, which may mend by itself (processes only)
  // What answered a claim is not the claim's server (processes only). As with 5, a later try may do better.
  kExitServerNotProven = 5,
};

// Logs what goes wrong, with the remedy, before it returns. Without until_finished, once and is_end_wanted it
// never returns after a good start. Lines: event=boot (board, firmware, reset cause), started (the device as well, its
// server, link and data), model (version and digest, when there is one: from=storage at the start, from=server when it
// came), connected (how TLS agreed on its keys), link_lost (with the reason, TLS's included), finished or stopped (with
// version, digest and the counters), failed.
int client_main(const ClientMainOptions& options);

#if !defined(GS_BARE_METAL)
// What client_main() begins with: starts the device with what it has stored. kExitOk, or why not, which is logged.
int start_device(const ClientMainOptions& options, const gs_sample_source& samples);
#endif

// A local step is unfinished: gs_status_view.step_open, without the work of gs_status().
bool is_step_open();

#if !defined(GS_BARE_METAL)
// What gs_init() gives the device in place of the identity's key. All outlive the device. Called before it.
void use_credentials(const Credentials* credentials, const char* server_name);
void use_keys(KeyHolder* keys);
void use_judged(const JudgedUpdates* judged);  // null: nobody is told
#endif

}  // namespace gradstream

#endif  // GRADSTREAM_FIRMWARE_CLIENT_MAIN_H_
